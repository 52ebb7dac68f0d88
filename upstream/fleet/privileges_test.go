// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/helm"
	"github.com/regcred/regcred/upstream/node"
)

// testPrivileges removes one privilege of the pod at a time and checks that the agent reports which
// is missing. This also shows that every privilege is needed. The pods run in mode DryRun, which
// accesses the node in the same way.
func (f *clusterFleet) testPrivileges(t *testing.T) {
	f.addNamespace(t, "least")
	template := f.renderPod(t, "least", mergeValues(chartValues(firstHost), map[string]any{"mode": "DryRun"}))
	for _, tt := range []struct {
		name string
		take func(*corev1.PodSpec)
		want string // parts of the agent's last line, in order, separated by "…"
	}{
		{"nothing is missing", func(*corev1.PodSpec) {}, `"phase":"planned"`},
		{"another user than root", func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext.RunAsUser, s.Containers[0].SecurityContext.RunAsGroup = new(int64(65534)), new(int64(65534))
		}, `"phase":"failed"…/run/systemd/private`},
		{"no directory of systemd's sockets", func(s *corev1.PodSpec) { removeVolumeMount(s, "systemd") }, `"phase":"failed"…the node's /run/systemd is not mounted into this pod`},
		{"that directory is the one of a node without systemd", func(s *corev1.PodSpec) { mountEmptyDir(s, "systemd") }, `"phase":"unsupported"…this node has no systemd`},
		{"the work directory is not where the node looks", func(s *corev1.PodSpec) {
			for i, arg := range s.Containers[0].Args {
				if strings.HasPrefix(arg, "--host-work=") {
					s.Containers[0].Args[i] = strings.Replace(arg, "/var/lib/kubelet/", "/mnt/kubelet/", 1)
				}
			}
		}, `"phase":"failed"…--root-dir`},
		{"no state", func(s *corev1.PodSpec) { removeVolumeMount(s, "state") }, `"phase":"failed"…/state/state`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := template.DeepCopy()
			tt.take(spec)
			pod := f.runPod(t, "least", spec)
			node.Eventually(t, 90*time.Second, func(ctx context.Context) error {
				line, err := f.lastStatus(ctx, pod)
				if err != nil {
					return err
				}
				if !containsInOrder(line, strings.Split(tt.want, "…")) {
					return fmt.Errorf("the agent does not say %q: %s", tt.want, line)
				}
				t.Logf("%s", line)
				return nil
			})
		})
	}
	t.Run("what it does without", func(t *testing.T) { dropPrivileges(t, template) })
}

// dropPrivileges checks that the unmodified pod lacks the privileges that it must not have.
func dropPrivileges(t *testing.T, s *corev1.PodSpec) {
	if s.HostPID || s.HostNetwork || s.HostIPC {
		t.Error("it has a namespace of the node's")
	}
	if s.AutomountServiceAccountToken == nil || *s.AutomountServiceAccountToken {
		t.Error("it has a token")
	}
	for _, v := range s.Volumes {
		if v.HostPath != nil && v.HostPath.Path != "/run/systemd" {
			t.Errorf("it has %s of the node", v.HostPath.Path)
		}
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		sc := c.SecurityContext
		if sc == nil || sc.Privileged != nil && *sc.Privileged || sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation ||
			sc.ReadOnlyRootFilesystem == nil || !*sc.ReadOnlyRootFilesystem || sc.Capabilities == nil || len(sc.Capabilities.Add) > 0 ||
			!slices.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("container %s has the security context %+v", c.Name, sc)
		}
	}
}

// containsInOrder reports whether text contains these parts in order.
func containsInOrder(text string, parts []string) bool {
	for _, part := range parts {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return true
}

// mountEmptyDir changes a hostPath volume to another directory, which the kubelet creates empty.
func mountEmptyDir(s *corev1.PodSpec, name string) {
	for i := range s.Volumes {
		if s.Volumes[i].Name == name {
			s.Volumes[i].HostPath.Path = "/run/of-no-init"
		}
	}
}

// removeVolumeMount removes a volume from the pod.
func removeVolumeMount(s *corev1.PodSpec, name string) {
	s.Volumes = slices.DeleteFunc(s.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	for i := range s.Containers {
		s.Containers[i].VolumeMounts = slices.DeleteFunc(s.Containers[i].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name })
	}
}

// renderPod returns the pod of the chart's DaemonSet as rendered by "helm template". It also creates
// the ConfigMaps and the service account for the pod.
func (f *clusterFleet) renderPod(t *testing.T, namespace string, values map[string]any) *corev1.PodSpec {
	t.Helper()
	out := f.helm.Run(t, "template", "least", helm.ChartDir(t), "--namespace", namespace, "--values", valuesFile(t, values), "--no-hooks")
	var set appsv1.DaemonSet
	for doc := range strings.SplitSeq(out, "\n---\n") {
		var kind metav1.TypeMeta
		decodeYAML(t, doc, &kind)
		var err error
		switch kind.Kind {
		case "DaemonSet":
			decodeYAML(t, doc, &set)
		case "ConfigMap":
			var o corev1.ConfigMap
			decodeYAML(t, doc, &o)
			_, err = f.Client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &o, metav1.CreateOptions{})
		case "ServiceAccount":
			var o corev1.ServiceAccount
			decodeYAML(t, doc, &o)
			_, err = f.Client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &o, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &set.Spec.Template.Spec
}

func decodeYAML(t *testing.T, doc string, into any) {
	t.Helper()
	must.Do(t, yaml.Unmarshal([]byte(doc), into))
}

// runPod runs a pod on the first node and deletes it when the test ends.
func (f *clusterFleet) runPod(t *testing.T, namespace string, spec *corev1.PodSpec) *corev1.Pod {
	t.Helper()
	spec.NodeName, spec.TerminationGracePeriodSeconds = nodeA, new(int64(1))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "least-"}, Spec: *spec}
	pod = must.Get(f.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = f.Client.CoreV1().Pods(namespace).Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	})
	return pod
}
