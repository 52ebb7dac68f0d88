// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/upstream/helm"
	"github.com/regcred/regcred/upstream/node"
)

// testLifecycle verifies the life cycle of a release. The two nodes have no credential providers before
// the installation and after the uninstall.
func (f *clusterFleet) testLifecycle(t *testing.T) {
	step := func(name string, do func(*testing.T)) {
		if t.Failed() {
			return // later steps depend on earlier ones
		}
		t.Run(name, do)
	}
	before := f.describeAllNodeFiles(t)
	var r *release
	var work workload
	var kubelets, withLater map[string]string
	step("installed: both nodes pull what needs a password", func(t *testing.T) {
		r = f.installRelease(t, "regcred", "regcred", chartValues(firstHost))
		r.waitRollout(t)
		work = f.startWorkload(t, "work", firstHost)
		kubelets = f.kubeletProcesses(t)
	})
	step("a provider within the patterns: no kubelet is restarted", func(t *testing.T) {
		took := r.upgradeRelease(t, chartValues(firstHost, laterHost))
		t.Logf("from helm upgrade to the last of %d nodes: %v", len(f.Nodes), took.Round(100*time.Millisecond))
		f.checkUnchanged(t, kubelets, f.kubeletProcesses(t))
		withLater = f.activeConfigs(t)
		f.startWorkload(t, "work-later", laterHost)
		work.checkUndisturbed(t)
	})
	step("seen by a real Prometheus", func(t *testing.T) { r.testPrometheus(t) })
	step("a pattern that is new: one kubelet after the other", func(t *testing.T) {
		least := watchReady(t, r.Cluster, r.labelSelector())
		r.upgradeRelease(t, chartValues(firstHost, laterHost, otherHost))
		if n := least(); n != 1 {
			t.Errorf("at least %d agents were ready, want 1", n)
		}
		for name, was := range kubelets {
			if now := f.kubeletProcesses(t)[name]; now == was {
				t.Errorf("the kubelet of %s has not been restarted: %s", name, now)
			}
		}
		work.checkUndisturbed(t)
		kubelets = f.kubeletProcesses(t)
	})
	step("values that the schema refuses change nothing", func(t *testing.T) {
		bad := chartValues(firstHost)
		bad["updateStrategy"] = map[string]any{"maxUnavailable": 1, "maxSurge": 1}
		_, stderr, err := f.helm.Output(t.Context(), "upgrade", r.name, helm.ChartDir(t), "--namespace", r.namespace, "--values", valuesFile(t, bad))
		if err == nil || !strings.Contains(stderr, "maxSurge") {
			t.Errorf("helm upgrade: %v: %s", err, stderr)
		}
	})
	step("a bad change stops at the first node", func(t *testing.T) { r.testBadChange(t) })
	step("helm rollback: the other node was never touched, and no kubelet is restarted", func(t *testing.T) {
		f.helm.Run(t, "rollback", r.name, "--namespace", r.namespace)
		r.waitRollout(t)
		f.checkUnchanged(t, kubelets, f.kubeletProcesses(t))
		work.checkUndisturbed(t)
	})
	step("helm rollback further: the configuration of then, and no kubelet is restarted", func(t *testing.T) {
		f.helm.Run(t, "rollback", r.name, "2", "--namespace", r.namespace)
		r.waitRollout(t)
		f.checkUnchanged(t, withLater, f.activeConfigs(t))
		f.checkUnchanged(t, kubelets, f.kubeletProcesses(t))
		work.checkUndisturbed(t)
	})
	step("uninstalled, while the image cannot be pulled", func(t *testing.T) {
		f.images.SetUser("cluster", "another password now")
		defer f.images.SetUser("cluster", canary.PasswordSecret)
		begin := time.Now()
		f.helm.Run(t, "uninstall", r.name, "--namespace", r.namespace)
		t.Logf("helm uninstall: %v", time.Since(begin).Round(100*time.Millisecond))
		work.checkUndisturbed(t)
		r.checkRemoved(t)
		f.checkNodeFiles(t, before)
	})
}

// testBadChange verifies a change that fails on a node. The first node rolls back and reports the
// reason. The second node is not changed.
func (r *release) testBadChange(t *testing.T) {
	probe := r.registry[firstHost].PushApp(t, "team/probe", "v1")
	bad := chartValues(firstHost, laterHost, otherHost)
	bad["config"].(map[string]any)["providers"].([]any)[0].(map[string]any)["args"] = []string{
		"--host=" + firstHost, "--username=nobody", "--password-file=" + password, "--cache-duration=0s",
	}
	bad["probe"] = map[string]any{"image": probe}
	kubelets, currents := r.kubeletProcesses(t), r.activeConfigs(t)
	pods := r.listAgentPods(t)
	r.helm.Run(t, "upgrade", r.name, helm.ChartDir(t), "--namespace", r.namespace, "--values", valuesFile(t, bad))
	var failed *corev1.Pod
	event := ""
	node.Eventually(t, 3*time.Minute, func(ctx context.Context) error {
		for name, old := range pods {
			now, err := r.findAgentPod(ctx, name)
			if err != nil || now.UID == old.UID {
				continue
			}
			events, err := r.PodEvents(ctx, now)
			if err != nil {
				return err
			}
			for _, e := range events {
				if strings.Contains(e, "failed: node ") && strings.Contains(e, probe) {
					failed, event = now, e
					return nil
				}
			}
		}
		return fmt.Errorf("no new pod has an event that says why")
	})
	t.Logf("the event: %s", event)
	if strings.Contains(strings.TrimSuffix(event, "\n"), "\n") {
		t.Error("it is more than a line")
	}
	other := nodeA
	if failed.Spec.NodeName == nodeA {
		other = nodeB
	}
	if now, err := r.findAgentPod(t.Context(), other); err != nil || now.UID != pods[other].UID || !isReady(now) {
		t.Errorf("the pod of %s is not the one of before: %v", other, err)
	}
	r.checkUnchanged(t, kubelets, r.kubeletProcesses(t))
	r.checkUnchanged(t, currents, r.activeConfigs(t))
}

// listAgentPods returns the agent pods by node.
func (r *release) listAgentPods(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	pods := map[string]*corev1.Pod{}
	for _, m := range r.Nodes {
		p, err := r.findAgentPod(t.Context(), m.Name())
		if err != nil {
			t.Fatalf("node %s: %v", m.Name(), err)
		}
		pods[m.Name()] = p
	}
	return pods
}

// activeConfigs returns each node's active configuration.
func (f *clusterFleet) activeConfigs(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, m := range f.Nodes {
		all[m.Name()] = readActiveConfig(t, m)
	}
	return all
}

// readActiveConfig returns the active configuration on a machine.
func readActiveConfig(t *testing.T, m *node.Machine) string {
	t.Helper()
	return m.Run(t, "sh", "-c", "cat /var/lib/regcred/current/config/*")
}

// checkRemoved checks that the cluster contains no objects of the release. The namespace and its
// pull secret are not part of the release.
func (r *release) checkRemoved(t *testing.T) {
	t.Helper()
	node.Eventually(t, time.Minute, func(ctx context.Context) error {
		left := []string{}
		all := metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + r.name}
		api := r.Client
		note := func(kind string, n int, err error) error {
			if n > 0 {
				left = append(left, fmt.Sprintf("%d %s", n, kind))
			}
			return err
		}
		check := func(kind string, list func() (int, error)) error {
			n, err := list()
			return note(kind, n, err)
		}
		for kind, list := range map[string]func() (int, error){
			"pods": func() (int, error) { l, err := api.CoreV1().Pods(r.namespace).List(ctx, all); return len(l.Items), err },
			"DaemonSets": func() (int, error) {
				l, err := api.AppsV1().DaemonSets(r.namespace).List(ctx, all)
				return len(l.Items), err
			},
			"Jobs": func() (int, error) {
				l, err := api.BatchV1().Jobs(r.namespace).List(ctx, all)
				return len(l.Items), err
			},
			"ConfigMaps": func() (int, error) {
				l, err := api.CoreV1().ConfigMaps(r.namespace).List(ctx, all)
				return len(l.Items), err
			},
			"ServiceAccounts": func() (int, error) {
				l, err := api.CoreV1().ServiceAccounts(r.namespace).List(ctx, all)
				return len(l.Items), err
			},
			"Roles": func() (int, error) {
				l, err := api.RbacV1().Roles(r.namespace).List(ctx, all)
				return len(l.Items), err
			},
			"RoleBindings": func() (int, error) {
				l, err := api.RbacV1().RoleBindings(r.namespace).List(ctx, all)
				return len(l.Items), err
			},
			"ClusterRoles": func() (int, error) { l, err := api.RbacV1().ClusterRoles().List(ctx, all); return len(l.Items), err },
			"ClusterRoleBindings": func() (int, error) {
				l, err := api.RbacV1().ClusterRoleBindings().List(ctx, all)
				return len(l.Items), err
			},
			"NetworkPolicies": func() (int, error) {
				l, err := api.NetworkingV1().NetworkPolicies(r.namespace).List(ctx, all)
				return len(l.Items), err
			},
			"secrets of Helm": func() (int, error) {
				l, err := api.CoreV1().Secrets(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + r.name})
				return len(l.Items), err
			},
			"revisions": func() (int, error) {
				l, err := api.AppsV1().ControllerRevisions(r.namespace).List(ctx, all)
				return len(l.Items), err
			},
		} {
			if err := check(kind, list); err != nil {
				return err
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("left in the cluster: %q", left)
		}
		return nil
	})
}
