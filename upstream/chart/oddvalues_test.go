// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/helm"
)

// TestNull verifies values without a default: the user has set them to null, or --reuse-values has
// not added the default of a newer chart. The chart must reject each by name or treat it as empty.
func TestNull(t *testing.T) {
	data := must.Get(os.ReadFile(filepath.Join(helm.ChartDir(t), "values.yaml")))(t)
	var all map[string]any
	must.Do(t, yaml.UnmarshalStrict(data, &all))
	var paths []string
	empty := map[string]any{}
	var walk func(prefix string, v map[string]any)
	walk = func(prefix string, v map[string]any) {
		for key, value := range v {
			path := prefix + key
			paths = append(paths, path)
			switch value := value.(type) {
			case map[string]any:
				empty[path] = map[string]any{}
				if key == "resources" { // an empty map would keep the defaults
					empty[path] = map[string]any{"limits": nil, "requests": nil}
				}
				if !slices.Contains(freeFormValues, key) {
					walk(path+".", value)
				}
			case []any:
				empty[path] = []any{}
			case string:
				empty[path] = ""
			}
		}
	}
	walk("", all)
	h := helm.New(t, program, "")
	try := func(v values) (string, error) {
		out, _, err := h.Output(t.Context(), "template", release, helm.ChartDir(t), "--namespace", namespace, v.writeFile(t))
		return out, err
	}
	for _, path := range paths {
		got, err := try(withValues(values{path: nil}))
		if err != nil {
			if name := path[strings.LastIndexByte(path, '.')+1:]; !strings.Contains(err.Error(), "missing propert") || !strings.Contains(err.Error(), "'"+name+"'") {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		want, err := try(withValues(values{path: empty[path]}))
		got, want = strings.ReplaceAll(got, " null\n", " {}\n"), strings.ReplaceAll(want, " null\n", " {}\n") // limits and requests are rendered as null or {}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: null is neither refused nor as if empty (%v) (-empty +null):\n%s", path, err, diff)
		}
	}
}

// TestNamesStayStrings verifies that names with a special meaning in YAML stay strings.
func TestNamesStayStrings(t *testing.T) {
	for _, name := range []string{"1", "0x1f", "1e3", "true", "on", "null", "a.b", strings.Repeat("a", 53)} {
		rendered := helm.New(t, program, "").Run(t, "template", name, helm.ChartDir(t), "--namespace", "1e3", withValues(values{
			"uninstall.listNodes": true, "priorityClassName": "1e3", "seLinux.type": "true",
			"podAnnotations": map[string]any{"kubectl.kubernetes.io/default-container": "other"}, "nodeSelector": map[string]any{"kubernetes.io/os": "windows", "pool": "1"},
			"kubeletRootDir": "/a:", "updateStrategy.maxUnavailable": 100000,
		}).writeFile(t))
		all := decodeObjects(t, rendered)
		d := requireObject[*appsv1.DaemonSet](t, all, "DaemonSet/"+name)
		pod := d.Spec.Template
		if d.Namespace != "1e3" || pod.Labels["app.kubernetes.io/instance"] != name || pod.Spec.PriorityClassName != "1e3" || pod.Spec.NodeSelector["kubernetes.io/os"] != "linux" {
			t.Errorf("%s: %+v", name, pod)
		}
		if strings.Count(rendered, "default-container:") != 1 {
			t.Errorf("%s: an annotation of the pods twice", name)
		}
		if got := d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.IntValue(); got != 100000 {
			t.Errorf("%d at a time", got)
		}
	}
}

// TestPluginImagesStayStrings verifies that images with a special meaning in YAML stay strings, and that two images
// cannot have one name.
func TestPluginImagesStayStrings(t *testing.T) {
	image := func(name, image string) any {
		return map[string]any{"name": name, "image": image, "paths": []any{"/p"}}
	}
	for _, ref := range []string{"true", "123", "1e3", "0x1f", "1:30", "null", "a:"} {
		all := decodeObjects(t, renderChart(t, withValues(values{
			"plugins.images": []any{image("1", ref), image("2", ref)}, "image.repository": "1", "image.tag": "30",
		})))
		pod := requireObject[*appsv1.DaemonSet](t, all, "DaemonSet/"+release).Spec.Template.Spec
		if got := pod.InitContainers[1].Image; got != ref {
			t.Errorf("got %q, want %q", got, ref)
		}
		if got := pod.Containers[0].Image; got != "1:30" {
			t.Errorf("got %q", got)
		}
	}
	_, stderr, err := helm.New(t, program, "").Output(t.Context(), "template", release, helm.ChartDir(t), withValues(values{
		"plugins.images": []any{image("a", "x/a"), image("b", "x/b"), image("a", "x/c")},
	}).writeFile(t))
	if err == nil || !strings.Contains(stderr, "plugins.images: two images have the name a") {
		t.Errorf("two images with one name: %v", err)
	}
}

// TestUnusualTexts verifies that unusual strings in the configuration reach the nodes unchanged, or
// that rendering fails.
func TestUnusualTexts(t *testing.T) {
	texts := []any{
		"yes", "n", "~", "1e3", "0o7", "012", "1_000", "1:30", "{{ .Values }}", "a\nb", "a\n\n", "\na", "  a\n b", "a\tb\nc", "'q\"", "a #c", "a: b", "- x",
		"--- ", "\ufeffa", "\a", "a\r\nb", "😀", strings.Repeat("x ", 600), "9007199254740993", " ", "", "k:\n---\nkind: Secret\n", "\\n",
	}
	rendered := renderChart(t, withValues(values{"config.providers": []any{providerValues("registry.example", "args", texts)}}), "--show-only", "templates/config.yaml")
	for _, o := range decodeObjects(t, rendered) {
		var got struct{ Providers []struct{ Args []any } }
		must.Do(t, yaml.Unmarshal([]byte(o.(*corev1.ConfigMap).Data["config.yaml"]), &got))
		if diff := cmp.Diff(texts, got.Providers[0].Args); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for _, text := range []string{"a\u2028b\nc", "secret\u2028", "secret\x7f"} {
		_, stderr, err := helm.New(t, program, "").Output(t.Context(), "template", release, helm.ChartDir(t), withValues(nil).writeFile(t), "--set-string", "config.providers[0].args[0]="+text)
		if err == nil || strings.Contains(stderr, "secret") || !strings.Contains(stderr, "config") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
