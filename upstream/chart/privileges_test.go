// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/klog/v2"
)

// thirdPartyValues are values that add a third-party plugin image.
var thirdPartyValues = values{"plugins.images": []any{map[string]any{"name": "vendor", "image": "registry.example/plugin:v1", "paths": []any{"/p"}}}}

// TestPrivileges verifies that a pod has exactly the privileges listed in docs/fleet.md. It
// compares complete security contexts, so that the test fails if a setting is added.
func TestPrivileges(t *testing.T) {
	d := renderDaemonSet(t, withValues(thirdPartyValues))
	spec := d.Spec.Template.Spec
	no, yes, root, nobody := false, true, int64(0), int64(65532)

	want := &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &nobody, RunAsGroup: &nobody,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if diff := cmp.Diff(want, spec.SecurityContext); diff != "" {
		t.Errorf("of the pod (-want +got):\n%s", diff)
	}
	confined := corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	for _, c := range spec.InitContainers {
		if diff := cmp.Diff(&confined, c.SecurityContext); diff != "" {
			t.Errorf("of init container %s (-want +got):\n%s", c.Name, diff)
		}
	}
	agents := confined
	agents.RunAsNonRoot, agents.RunAsUser, agents.RunAsGroup = &no, &root, &root
	agents.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
	if diff := cmp.Diff(&agents, agentContainer(t, d).SecurityContext); diff != "" {
		t.Errorf("of the agent (-want +got):\n%s", diff)
	}

	if spec.HostPID || spec.HostIPC || spec.HostNetwork || spec.ShareProcessNamespace != nil {
		t.Error("it sees more of the node than it needs")
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Error("it has a token of the API server")
	}
	var hostPaths, tokens []string
	for _, v := range spec.Volumes {
		switch {
		case v.HostPath != nil:
			hostPaths = append(hostPaths, v.HostPath.Path+" "+string(*v.HostPath.Type))
		case v.ConfigMap == nil && v.EmptyDir == nil:
			tokens = append(tokens, v.Name)
		}
	}
	if diff := cmp.Diff([]string{"/run/systemd DirectoryOrCreate"}, hostPaths); diff != "" || len(tokens) > 0 {
		t.Errorf("volumes of the node (-want +got), and %v:\n%s", tokens, diff)
	}
	for _, c := range append(spec.InitContainers, spec.Containers...) {
		for _, m := range c.VolumeMounts {
			if m.Name == "systemd" && (c.Name != "agent" || !m.ReadOnly) {
				t.Errorf("%s has systemd's directory, writable: %v", c.Name, !m.ReadOnly)
			}
			if m.MountPropagation != nil {
				t.Errorf("%s: mounts of %s get out", c.Name, m.Name)
			}
		}
	}
}

// TestPrivilegesOfUninstall verifies that the uninstall hook has no access to the node, and exactly three permissions in
// its namespace.
func TestPrivilegesOfUninstall(t *testing.T) {
	all := decodeObjects(t, renderChart(t, withValues(nil)))
	spec := requireObject[*batchv1.Job](t, all, "Job/regcred-uninstall").Spec.Template.Spec
	no, yes, nobody := false, true, int64(65532)
	if diff := cmp.Diff(&corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &nobody, RunAsGroup: &nobody,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}, spec.SecurityContext); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}, spec.Containers[0].SecurityContext); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(spec.Volumes) > 0 || spec.HostNetwork || spec.HostPID || spec.Containers[0].ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("volumes %v, image %s", spec.Volumes, spec.Containers[0].ImagePullPolicy)
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"regcred-state"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
	}
	if diff := cmp.Diff(want, requireObject[*rbacv1.Role](t, all, "Role/regcred-uninstall").Rules); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	checkUninstallScheduling(t, &spec)
}

// checkUninstallScheduling verifies on which nodes the uninstall Job can run. It prefers a node with a
// regcred pod, which already has the image. It can run on any other node too, because an
// unschedulable Job blocks helm uninstall. It must not run on an unreachable node.
func checkUninstallScheduling(t *testing.T, spec *corev1.PodSpec) {
	t.Helper()
	affinity := spec.Affinity.PodAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution != nil || len(affinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Fatalf("affinity: %v", affinity)
	}
	term := affinity.PreferredDuringSchedulingIgnoredDuringExecution[0]
	if diff := cmp.Diff(renderDaemonSet(t, withValues(nil)).Spec.Template.Labels, term.PodAffinityTerm.LabelSelector.MatchLabels); diff != "" || term.Weight != 100 {
		t.Errorf("beside which pods, with weight %d (-theirs +wanted):\n%s", term.Weight, diff)
	}
	for key, want := range map[string]bool{
		corev1.TaintNodeUnreachable: false, corev1.TaintNodeNotReady: false, "node-role.kubernetes.io/control-plane": true,
	} {
		taint := corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}
		tolerates := func(o corev1.Toleration) bool { return o.ToleratesTaint(klog.Background(), &taint, false) }
		if got := slices.ContainsFunc(spec.Tolerations, tolerates); got != want {
			t.Errorf("it tolerates %s: %v, want %v", key, got, want)
		}
	}
}

// TestUninstallHooks verifies that only the objects for helm uninstall are hooks, and that Helm
// creates them in the required order.
func TestUninstallHooks(t *testing.T) {
	got := map[string]string{}
	for key, object := range decodeObjects(t, renderChart(t, withValues(values{"uninstall.listNodes": true}))) {
		notes := object.(interface{ GetAnnotations() map[string]string }).GetAnnotations()
		if notes["helm.sh/hook"] != "" || strings.Contains(key, "uninstall") {
			got[key] = notes["helm.sh/hook"] + " " + notes["helm.sh/hook-weight"] + " " + notes["helm.sh/hook-delete-policy"]
		}
	}
	const policy = " before-hook-creation,hook-succeeded"
	want := map[string]string{
		"ServiceAccount/regcred-uninstall":                     "pre-delete -3" + policy,
		"Role/regcred-uninstall":                               "pre-delete -2" + policy,
		"RoleBinding/regcred-uninstall":                        "pre-delete -1" + policy,
		"ClusterRole/regcred:regcred:regcred:uninstall":        "pre-delete -2" + policy,
		"ClusterRoleBinding/regcred:regcred:regcred:uninstall": "pre-delete -1" + policy,
		"Job/regcred-uninstall":                                "pre-delete 0" + policy,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
