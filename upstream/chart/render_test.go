// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/must"
)

// defaultObjects lists the objects that are rendered by default, except the ConfigMap, whose name contains a hash.
var defaultObjects = []string{
	"ConfigMap/regcred-state", "DaemonSet/regcred", "Job/regcred-uninstall", "NetworkPolicy/regcred", "Role/regcred-uninstall",
	"RoleBinding/regcred-uninstall", "ServiceAccount/regcred-agent", "ServiceAccount/regcred-uninstall",
}

// TestRender verifies that values are applied, and that every rendered field exists in the
// Kubernetes API.
func TestRender(t *testing.T) {
	sha := "sha256:" + strings.Repeat("a1", 32)
	for _, tt := range []struct {
		name         string
		changes      values
		more, less   []string // objects in addition to usual, and objects of usual that are missing
		args, noArgs []string // arguments that the agent must have, and must not have
		check        func(t *testing.T, d *appsv1.DaemonSet, all map[string]runtime.Object)
	}{
		{name: "as it comes", args: []string{
			"--node=$(NODE_NAME)", "--owner=regcred/regcred", "--config=/config", "--state=/state/state", "--plugins=/plugins", "--work=/work",
			"--host-work=/var/lib/kubelet/pods/$(POD_UID)/volumes/kubernetes.io~empty-dir/work",
			"--restart", "--max-stale=5m", "--keep=5", "--timeout=4m", "--state-dir=/var/lib/regcred", "--listen=:9476",
		}, noArgs: []string{"--dry-run", "--any-image", "--reapplied", "--probe", "--reserve"}},
		{name: "a dry run that restarts nothing", changes: values{"mode": "DryRun", "restart": "Never"}, args: []string{"--dry-run"}, noArgs: []string{"--restart"}},
		{
			name: "what nodes are told",
			changes: values{
				"probe.image": "registry.example/probe:v1", "reserve": []any{"*.example", "[::1]:5000/a"}, "anyImage": true, "maxStale": "90s", "keep": 9,
				"reapplied": true, "stateDir": "/home/kubernetes/bin/regcred", "timeout": "2m", "kubeletRootDir": "/data/kubelet/",
			},
			args: []string{
				"--probe=registry.example/probe:v1", "--reserve=*.example", "--reserve=[::1]:5000/a", "--any-image", "--max-stale=90s", "--keep=9",
				"--reapplied", "--state-dir=/home/kubernetes/bin/regcred", "--timeout=2m", "--host-work=/data/kubelet/pods/$(POD_UID)/volumes/kubernetes.io~empty-dir/work",
			},
		},
		{name: "no metrics", changes: values{"metrics.enabled": false}, args: []string{"--listen="}, check: func(t *testing.T, d *appsv1.DaemonSet, all map[string]runtime.Object) {
			if ports := agentContainer(t, d).Ports; len(ports) > 0 {
				t.Errorf("ports: %v", ports)
			}
			policy := requireObject[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy/regcred").Spec
			if len(policy.Ingress) > 0 {
				t.Errorf("ways in: %v", policy.Ingress)
			}
		}},
		{name: "no NetworkPolicy", changes: values{"networkPolicy.enabled": false}, less: []string{"NetworkPolicy/regcred"}},
		{name: "nodes may be listed", changes: values{"uninstall.listNodes": true}, more: []string{
			"ClusterRole/regcred:regcred:regcred:uninstall", "ClusterRoleBinding/regcred:regcred:regcred:uninstall",
		}},
		{name: "uninstall", changes: values{"uninstall.timeoutSeconds": 900, "uninstall.allowMissing": true}, check: func(t *testing.T, _ *appsv1.DaemonSet, all map[string]runtime.Object) {
			spec := requireObject[*batchv1.Job](t, all, "Job/regcred-uninstall").Spec
			if *spec.ActiveDeadlineSeconds != 960 {
				t.Errorf("the Job is ended after %d s, before it reports in 900", *spec.ActiveDeadlineSeconds)
			}
			args := spec.Template.Spec.Containers[0].Args
			for _, want := range []string{"--timeout=900s", "--allow-missing", "--namespace=regcred", "--state-configmap=regcred-state"} {
				if !slices.Contains(args, want) {
					t.Errorf("%q has no %s", args, want)
				}
			}
		}},
		{name: "an image by digest", changes: values{"image.repository": "registry.example:5000/r", "image.digest": sha, "image.tag": "v9"}, check: func(t *testing.T, d *appsv1.DaemonSet, all map[string]runtime.Object) {
			job := requireObject[*batchv1.Job](t, all, "Job/regcred-uninstall").Spec.Template.Spec.Containers[0]
			if got, want := agentContainer(t, d).Image, "registry.example:5000/r@"+sha; got != want || job.Image != want {
				t.Errorf("got %s and %s, want %s", got, job.Image, want)
			}
		}},
		{name: "a plugin of others", changes: values{"plugins.images": []any{
			map[string]any{"name": "vendor", "image": "registry.example/plugin:v1", "paths": []any{"/usr/bin/vendor-credential-provider", "/b"}},
			map[string]any{"name": "other", "image": "registry.example/other:v1", "paths": []any{"/c"}},
		}}, args: []string{"--plugins=/others"}, check: checkPlugins},
		{name: "where", changes: values{
			"nodeSelector": map[string]any{"pool": "a"}, "tolerations": []any{}, "updateStrategy.maxUnavailable": "10%", "minReadySeconds": 5, "restart": "Never", "priorityClassName": "",
			"hostNetwork": true, "imagePullSecrets": []any{map[string]any{"name": "pull"}}, "seLinux.type": "super_t",
			"appArmorProfile": map[string]any{"type": "Unconfined"}, "podLabels": map[string]any{"team": "a"}, "podAnnotations": map[string]any{"note": "b"},
		}, check: checkScheduling},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := decodeObjects(t, renderChart(t, withValues(tt.changes)))
			d := requireObject[*appsv1.DaemonSet](t, all, "DaemonSet/regcred")
			want := slices.Concat(defaultObjects, tt.more, []string{"ConfigMap/" + generatedConfigMapName(t, d)})
			want = slices.DeleteFunc(want, func(key string) bool { return slices.Contains(tt.less, key) })
			slices.Sort(want)
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(all))); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			args := agentContainer(t, d).Args
			for _, arg := range append(tt.args, "--revision="+generatedConfigMapName(t, d)) {
				if !slices.Contains(args, arg) {
					t.Errorf("%q has no %s", args, arg)
				}
			}
			for _, arg := range tt.noArgs {
				if strings.Contains(strings.Join(args, "\n"), arg) {
					t.Errorf("%q has %s", args, arg)
				}
			}
			if tt.check != nil {
				tt.check(t, d, all)
			}
		})
	}
}

func agentContainer(t *testing.T, d *appsv1.DaemonSet) corev1.Container {
	t.Helper()
	c := d.Spec.Template.Spec.Containers
	if len(c) != 1 || c[0].Name != "agent" {
		t.Fatalf("the pod has not one container, agent, but %d", len(c))
	}
	return c[0]
}

// generatedConfigMapName returns the name of the ConfigMap that the pods mount.
func generatedConfigMapName(t *testing.T, d *appsv1.DaemonSet) string {
	t.Helper()
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == "config" {
			return v.ConfigMap.Name
		}
	}
	t.Fatal("no volume of the configuration")
	return ""
}

func checkPlugins(t *testing.T, d *appsv1.DaemonSet, _ map[string]runtime.Object) {
	var got []string
	for _, c := range d.Spec.Template.Spec.InitContainers {
		mounts := ""
		for _, m := range c.VolumeMounts {
			mounts += " " + m.MountPath
			if m.ReadOnly {
				mounts += ":ro"
			}
		}
		got = append(got, c.Name+" "+c.Image+" "+strings.Join(c.Command, " ")+mounts)
	}
	want := []string{
		"tools ghcr.io/regcred/regcred:v0.0.0 /bin/regcred agent copy /bin/regcred /tools/ /tools",
		"plugin-vendor registry.example/plugin:v1 /tools/regcred agent copy /usr/bin/vendor-credential-provider /b /others/ /tools:ro /others",
		"plugin-other registry.example/other:v1 /tools/regcred agent copy /c /others/ /tools:ro /others",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("init containers (-want +got):\n%s", diff)
	}
}

func checkScheduling(t *testing.T, d *appsv1.DaemonSet, all map[string]runtime.Object) {
	pod, job := d.Spec.Template, requireObject[*batchv1.Job](t, all, "Job/regcred-uninstall").Spec.Template
	got := map[string]any{
		"nodes":        pod.Spec.NodeSelector,
		"tolerations":  len(pod.Spec.Tolerations),
		"max":          d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String(),
		"ready":        d.Spec.MinReadySeconds,
		"class":        pod.Spec.PriorityClassName + job.Spec.PriorityClassName,
		"network":      []bool{pod.Spec.HostNetwork, job.Spec.HostNetwork},
		"pull secrets": []string{pod.Spec.ImagePullSecrets[0].Name, job.Spec.ImagePullSecrets[0].Name},
		"SELinux":      agentContainer(t, d).SecurityContext.SELinuxOptions.Type,
		"AppArmor":     string(pod.Spec.SecurityContext.AppArmorProfile.Type),
		"label":        pod.Labels["team"],
		"note":         pod.Annotations["note"],
	}
	want := map[string]any{
		"nodes": map[string]string{"kubernetes.io/os": "linux", "pool": "a"}, "tolerations": 0, "max": "10%", "ready": int32(5), "class": "",
		"network": []bool{true, true}, "pull secrets": []string{"pull", "pull"}, "SELinux": "super_t", "AppArmor": "Unconfined", "label": "a", "note": "b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPodMonitor verifies the rendered PodMonitor. It decodes it into a map because this module has
// no Go type for it.
func TestPodMonitor(t *testing.T) {
	rendered := renderChart(t, withValues(values{"podMonitor.enabled": true}), "--show-only", "templates/podmonitor.yaml")
	var got map[string]any
	must.Do(t, yaml.Unmarshal([]byte(rendered), &got))
	labels := map[string]any{"app.kubernetes.io/name": "regcred", "app.kubernetes.io/instance": "regcred"}
	selector := maps.Clone(labels)
	selector["app.kubernetes.io/component"] = "agent"
	want := map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor",
		"metadata": map[string]any{"name": "regcred", "namespace": "regcred", "labels": labels},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": selector}, "podMetricsEndpoints": []any{map[string]any{"port": "metrics"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestConfigName verifies that the pods change if and only if a setting of the nodes changes. The
// ConfigMap's name changes only with the configuration.
func TestConfigName(t *testing.T) {
	base := renderDaemonSet(t, withValues(nil))
	for _, tt := range []struct {
		name         string
		changes      values
		config, pods bool // whether the ConfigMap's name and the pods change
	}{
		{"nothing", nil, false, false},
		{"another pattern", values{"config.providers": []any{providerValues("other.example")}}, true, true},
		{"another order of keys", values{"config.kind": "CredentialProviderConfig", "config.apiVersion": "kubelet.config.k8s.io/v1"}, false, false},
		{"an older version", values{"config.apiVersion": "kubelet.config.k8s.io/v1beta1"}, true, true},
		{"uninstall", values{"uninstall.timeoutSeconds": 60, "uninstall.listNodes": true}, false, false},
		{"the state", values{"state": "absent"}, false, false},
		{"how fast", values{"updateStrategy.maxUnavailable": 3, "minReadySeconds": 90}, false, false},
		{"PodMonitor", values{"podMonitor.enabled": true}, false, false},
		{"NetworkPolicy", values{"networkPolicy.enabled": false}, false, false},
		{"the metrics' port", values{"metrics.port": 9477}, false, true},
		{"resources", values{"resources.limits.memory": "256Mi"}, false, true},
		{"image", values{"image.tag": "v9"}, false, true},
		{"mode", values{"mode": "DryRun"}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := withValues(tt.changes)
			rendered := renderChart(t, v, "--show-only", "templates/daemonset.yaml")
			d := requireObject[*appsv1.DaemonSet](t, decodeObjects(t, rendered), "DaemonSet/regcred")
			if got := generatedConfigMapName(t, d) != generatedConfigMapName(t, base); got != tt.config {
				t.Errorf("another ConfigMap: %v, want %v", got, tt.config)
			}
			if got := cmp.Diff(base.Spec.Template, d.Spec.Template) != ""; got != tt.pods {
				t.Errorf("other pods: %v, want %v", got, tt.pods)
			}
		})
	}
}

// TestConfigMap verifies that the ConfigMap contains the configuration, is immutable, and has a hash of its content in
// its name.
func TestConfigMap(t *testing.T) {
	all := decodeObjects(t, renderChart(t, withValues(nil)))
	name := generatedConfigMapName(t, requireObject[*appsv1.DaemonSet](t, all, "DaemonSet/regcred"))
	c := requireObject[*corev1.ConfigMap](t, all, "ConfigMap/"+name)
	if c.Immutable == nil || !*c.Immutable {
		t.Error("it can be changed")
	}
	var got map[string]any
	if err := yaml.UnmarshalStrict([]byte(c.Data["config.yaml"]), &got); err != nil || len(c.Data) != 1 {
		t.Fatalf("%v in %v", err, c.Data)
	}
	want := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": []any{providerValues("registry.example")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
