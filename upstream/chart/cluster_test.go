// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package chart

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/helm"
	"github.com/regcred/regcred/upstream/node"
)

// chartCluster is an API server without controllers, a namespace, and Helm as a cluster administrator.
type chartCluster struct {
	*node.ControlPlane
	helm      *helm.Helm
	namespace string
}

func startAPIServer(t *testing.T) *chartCluster {
	t.Helper()
	node.SkipUnlessSupported(t)
	c := node.StartControlPlane(t)
	c.AddNamespace(t, namespace)
	return &chartCluster{c, helm.New(t, program, c.WriteKubeconfig(t, "admin", "system:masters")), namespace}
}

// remainingObjects returns the objects of a release and of its hook that exist in the cluster, as KIND/NAME.
func (s *chartCluster) remainingObjects(t *testing.T, instance string) (names []string) {
	t.Helper()
	options := metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + instance}
	add := func(kind string, list runtime.Object, err error) {
		if err == nil {
			err = meta.EachListItem(list, func(o runtime.Object) error {
				names = append(names, kind+"/"+o.(metav1.Object).GetName())
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	core, rbac := s.Client.CoreV1(), s.Client.RbacV1()
	configs, err := core.ConfigMaps(s.namespace).List(t.Context(), options)
	add("ConfigMap", configs, err)
	accounts, err := core.ServiceAccounts(s.namespace).List(t.Context(), options)
	add("ServiceAccount", accounts, err)
	sets, err := s.Client.AppsV1().DaemonSets(s.namespace).List(t.Context(), options)
	add("DaemonSet", sets, err)
	jobs, err := s.Client.BatchV1().Jobs(s.namespace).List(t.Context(), options)
	add("Job", jobs, err)
	roles, err := rbac.Roles(s.namespace).List(t.Context(), options)
	add("Role", roles, err)
	bindings, err := rbac.RoleBindings(s.namespace).List(t.Context(), options)
	add("RoleBinding", bindings, err)
	clusterRoles, err := rbac.ClusterRoles().List(t.Context(), options)
	add("ClusterRole", clusterRoles, err)
	clusterBindings, err := rbac.ClusterRoleBindings().List(t.Context(), options)
	add("ClusterRoleBinding", clusterBindings, err)
	policies, err := s.Client.NetworkingV1().NetworkPolicies(s.namespace).List(t.Context(), options)
	add("NetworkPolicy", policies, err)
	slices.Sort(names)
	return names
}

// configMapName returns the name of the ConfigMap that a release's DaemonSet mounts.
func (s *chartCluster) configMapName(t *testing.T, name string) string {
	t.Helper()
	d := must.Get(s.Client.AppsV1().DaemonSets(s.namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
	return generatedConfigMapName(t, d)
}

func (s *chartCluster) stateValue(t *testing.T) string {
	t.Helper()
	c := must.Get(s.Client.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), release+"-state", metav1.GetOptions{}))(t)
	return c.Data["state"]
}

// releaseObjects returns the expected objects of a release, as KIND/NAME. config is the name of its
// ConfigMap.
func releaseObjects(config string) []string {
	names := []string{"ConfigMap/" + config, "ConfigMap/regcred-state", "DaemonSet/regcred", "NetworkPolicy/regcred", "ServiceAccount/regcred-agent"}
	slices.Sort(names)
	return names
}

// TestReleaseLifecycle installs, upgrades and rolls back a release with the real Helm and API
// server. A failed uninstall must delete nothing and be repeatable. A successful uninstall must
// delete all objects.
func TestReleaseLifecycle(t *testing.T) {
	s := startAPIServer(t)
	args := func(verb string, changes values) []string {
		return []string{verb, release, helm.ChartDir(t), "--namespace", namespace, withValues(changes).writeFile(t)}
	}
	notes := s.helm.Run(t, args("install", nil)...)
	first := s.configMapName(t, release)
	for _, want := range []string{first, "kubectl rollout status daemonset/regcred -n regcred", "helm uninstall regcred -n regcred\n"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %q:\n%s", want, notes)
		}
	}
	s.checkObjects(t, "after install", releaseObjects(first))

	t.Run("the configuration cannot be changed under the pods", func(t *testing.T) {
		patch := []byte(`{"data":{"config.yaml":"{}"}}`)
		_, err := s.Client.CoreV1().ConfigMaps(namespace).Patch(t.Context(), first, types.MergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("got %v", err)
		}
	})

	// A change that does not affect the nodes leaves the DaemonSet unchanged.
	before := s.generation(t)
	s.helm.Run(t, args("upgrade", values{"uninstall.allowMissing": true, "networkPolicy.enabled": false})...)
	if after := s.generation(t); after != before {
		t.Errorf("the DaemonSet is generation %d, was %d", after, before)
	}
	// A changed configuration gets a new ConfigMap. The upgrade removes the previous ConfigMap, and
	// the rollback restores it.
	s.helm.Run(t, args("upgrade", values{"config.providers": []any{providerValues("other.example")}})...)
	second := s.configMapName(t, release)
	s.checkObjects(t, "after upgrade", releaseObjects(second))
	s.helm.Run(t, "rollback", release, "1", "--namespace", namespace)
	if got := s.configMapName(t, release); got != first || second == first {
		t.Errorf("rolled back to %s from %s, want %s", got, second, first)
	}
	s.checkObjects(t, "after rollback", releaseObjects(first))

	t.Run("without controllers nothing completes: a failed uninstall", func(t *testing.T) {
		_, _, err := s.helm.Output(t.Context(), "uninstall", release, "--namespace", namespace, "--timeout", "5s")
		if err == nil {
			t.Fatal("it has succeeded")
		}
		t.Log(err)
		s.checkObjects(t, "after a failed uninstall", append(releaseObjects(first), "Job/regcred-uninstall"))
	})
	t.Run("called off", func(t *testing.T) { s.testFailedUninstall(t, args("upgrade", nil)) })
	t.Run("again", func(t *testing.T) {
		job := must.Get(s.Client.BatchV1().Jobs(namespace).Get(t.Context(), release+"-uninstall", metav1.GetOptions{}))(t)
		done := make(chan error, 1)
		ctx := t.Context()
		go func() {
			_, _, err := s.helm.Output(ctx, "uninstall", release, "--namespace", namespace, "--timeout", "2m")
			done <- err
		}()
		job = s.newJob(t, job.UID)
		s.checkJobPermissions(t)
		s.completeJob(t, job)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		s.checkObjects(t, "after uninstall", nil)
	})
}

// testFailedUninstall verifies that a release cannot be upgraded after a failed uninstall. A
// rollback restores it, but only with --force-conflicts, because the Job has changed the state.
func (s *chartCluster) testFailedUninstall(t *testing.T, upgrade []string) {
	patch, options := []byte(`{"data":{"state":"absent"}}`), metav1.PatchOptions{FieldManager: "regcred"} // as the Job does
	if _, err := s.Client.CoreV1().ConfigMaps(namespace).Patch(t.Context(), release+"-state", types.MergePatchType, patch, options); err != nil {
		t.Fatal(err)
	}
	rollback := []string{"rollback", release, "4", "--namespace", namespace}
	for _, tt := range []struct {
		args  []string
		says  string
		state string
	}{
		{upgrade, "has no deployed releases", "absent"},
		{rollback, "conflict with \"regcred\" using v1: .data.state", "absent"},
		{append(rollback, "--force-conflicts"), "", "present"},
		{upgrade, "", "present"},
	} {
		_, _, err := s.helm.Output(t.Context(), tt.args...)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("helm %s: %v, want %q", tt.args[0], err, tt.says)
		}
		if got := s.stateValue(t); got != tt.state {
			t.Errorf("after helm %s the state is %q, want %q", tt.args[0], got, tt.state)
		}
	}
}

func (s *chartCluster) checkObjects(t *testing.T, when string, want []string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	if diff := cmp.Diff(want, s.remainingObjects(t, release)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func (s *chartCluster) generation(t *testing.T) int64 {
	t.Helper()
	d := must.Get(s.Client.AppsV1().DaemonSets(namespace).Get(t.Context(), release, metav1.GetOptions{}))(t)
	return d.Generation
}

// newJob waits for an uninstall Job whose UID is not earlier, and returns it.
func (s *chartCluster) newJob(t *testing.T, earlier types.UID) (job *batchv1.Job) {
	t.Helper()
	node.Eventually(t, time.Minute, func(ctx context.Context) (err error) {
		job, err = s.Client.BatchV1().Jobs(namespace).Get(ctx, release+"-uninstall", metav1.GetOptions{})
		if err == nil && job.UID == earlier {
			err = errors.New("the Job is that of the earlier uninstall")
		}
		return err
	})
	return job
}

// completeJob sets a Job's status as its controller would.
func (s *chartCluster) completeJob(t *testing.T, job *batchv1.Job) {
	t.Helper()
	now := metav1.Now()
	job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	must.Get(s.Client.BatchV1().Jobs(namespace).UpdateStatus(t.Context(), job, metav1.UpdateOptions{}))(t)
}

// checkJobPermissions verifies the permissions of the uninstall Job while helm uninstall runs.
func (s *chartCluster) checkJobPermissions(t *testing.T) {
	t.Helper()
	user := "system:serviceaccount:" + namespace + ":" + release + "-uninstall"
	client := must.Get(kubernetes.NewForConfig(s.ClientConfig(t, user, "system:serviceaccounts", "system:authenticated")))(t)
	core, patch := client.CoreV1(), []byte(`{"data":{"state":"absent"}}`)
	node.Eventually(t, time.Minute, func(ctx context.Context) error { // the API server notices a role with a delay
		_, err := core.Pods(namespace).List(ctx, metav1.ListOptions{})
		return err
	})
	patchOf := func(name string) error {
		_, err := core.ConfigMaps(namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	if err := patchOf(release + "-state"); err != nil {
		t.Error(err)
	}
	if got := s.stateValue(t); got != "absent" {
		t.Errorf("the state is %q", got)
	}
	if _, err := core.Pods(namespace).GetLogs("pod", &corev1.PodLogOptions{}).DoRaw(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("a pod's log: %v", err)
	}
	for what, try := range map[string]func() error{
		"another ConfigMap": func() error { return patchOf(s.configMapName(t, release)) },
		"nodes":             func() error { _, err := core.Nodes().List(t.Context(), metav1.ListOptions{}); return err },
		"secrets":           func() error { _, err := core.Secrets(namespace).List(t.Context(), metav1.ListOptions{}); return err },
		"pods elsewhere":    func() error { _, err := core.Pods("default").List(t.Context(), metav1.ListOptions{}); return err },
		"deleting a pod":    func() error { return core.Pods(namespace).Delete(t.Context(), "pod", metav1.DeleteOptions{}) },
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want an error that it is forbidden", what, err)
		}
	}
}

// TestTwoReleases verifies that releases with all optional objects have no object in common, in one
// namespace or two.
func TestTwoReleases(t *testing.T) {
	s := startAPIServer(t)
	s.AddNamespace(t, "other")
	more := values{"uninstall.listNodes": true, "plugins.images": thirdPartyValues["plugins.images"]}
	for _, r := range []struct{ namespace, name, pool string }{
		{namespace, release, "a"}, {namespace, release + "-uninstall", "b"}, {namespace, release + "-config", "c"}, {"other", release, "d"},
	} {
		v := withValues(more)
		v["nodeSelector"] = map[string]any{"pool": r.pool}
		s.helm.Run(t, "install", r.name, helm.ChartDir(t), "--namespace", r.namespace, v.writeFile(t))
	}
	sets, err := s.Client.AppsV1().DaemonSets("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) != 4 {
		t.Fatalf("%d DaemonSets, %v", len(sets.Items), err)
	}
	for _, a := range sets.Items {
		for _, b := range sets.Items {
			same := a.Name == b.Name && a.Namespace == b.Namespace
			selector := must.Get(metav1.LabelSelectorAsSelector(a.Spec.Selector))(t)
			if a.Namespace == b.Namespace && !same && selector.Matches(labels.Set(b.Spec.Template.Labels)) {
				t.Errorf("%s selects pods of %s", a.Name, b.Name)
			}
		}
	}
}

// TestPodSecurity verifies which Pod Security level the pods need. They need "privileged" only
// because of one hostPath volume and the optional SELinux type.
func TestPodSecurity(t *testing.T) {
	s := startAPIServer(t)
	pod := renderDaemonSet(t, withValues(thirdPartyValues)).Spec.Template
	for _, tt := range []struct {
		level   string
		refused []string
	}{
		{"privileged", nil},
		{"baseline", []string{"hostPath volumes", "seLinuxOptions"}},
		{"restricted", []string{"hostPath", "seLinuxOptions", "runAsUser=0"}},
	} {
		t.Run(tt.level, func(t *testing.T) {
			name := "level-" + tt.level
			s.AddNamespace(t, name)
			s.AddServiceAccount(t, name, release+"-agent", nil)
			label := fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, tt.level)
			must.Get(s.Client.CoreV1().Namespaces().Patch(t.Context(), name, types.MergePatchType, label, metav1.PatchOptions{}))(t)
			_, err := s.Client.CoreV1().Pods(name).Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "agent", Labels: pod.Labels}, Spec: pod.Spec,
			}, metav1.CreateOptions{})
			t.Log(err)
			if (err != nil) != (tt.refused != nil) {
				t.Fatalf("got %v, want that it says %q", err, tt.refused)
			}
			for _, want := range tt.refused {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it does not say %q", want)
				}
			}
			// The uninstall hook's pod is accepted at every level.
			job := requireObject[*batchv1.Job](t, decodeObjects(t, renderChart(t, withValues(nil))), "Job/regcred-uninstall").Spec.Template
			s.AddServiceAccount(t, name, release+"-uninstall", nil)
			_, err = s.Client.CoreV1().Pods(name).Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "uninstall", Labels: job.Labels}, Spec: job.Spec,
			}, metav1.CreateOptions{})
			if err != nil {
				t.Errorf("the hook's: %v", err)
			}
		})
	}
}
