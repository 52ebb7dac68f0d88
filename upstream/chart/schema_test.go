// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package chart

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/helm"
)

// TestSchemaOfConfig verifies that values.schema.json contains the output of regcred schema. With
// -update, it writes the file.
func TestSchemaOfConfig(t *testing.T) {
	cmd := exec.Command("go", "run", "./cmd/regcred", "schema")
	cmd.Dir = repositoryRoot(t)
	out := must.Get(cmd.Output())(t)
	var config map[string]any
	must.Do(t, json.Unmarshal(out, &config))
	path := filepath.Join(helm.ChartDir(t), "values.schema.json")
	committed := must.Get(os.ReadFile(path))(t)
	var schema map[string]any
	must.Do(t, json.Unmarshal(committed, &schema))
	// The references in regcred's schema start at the root's definitions.
	schema["definitions"] = config["definitions"]
	delete(config, "definitions")
	delete(config, "$schema")
	schema["properties"].(map[string]any)["config"] = config
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	must.Do(t, encoder.Encode(schema))
	if *update {
		must.Do(t, os.WriteFile(path, want.Bytes(), 0o644))
		return
	}
	if diff := cmp.Diff(want.String(), string(committed)); diff != "" {
		t.Errorf("values.schema.json is not regcred schema's, or its keys are not sorted; go test ./chart -run %s -args -update (-want +got):\n%s", t.Name(), diff)
	}
}

// TestSchemaKnowsValues verifies that the schema contains exactly the keys of values.yaml. It may
// allow other keys only in objects that Kubernetes or the user defines.
func TestSchemaKnowsValues(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(helm.ChartDir(t), "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	must.Do(t, yaml.UnmarshalStrict(data, &v))
	if data, err = os.ReadFile(filepath.Join(helm.ChartDir(t), "values.schema.json")); err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	must.Do(t, json.Unmarshal(data, &schema))
	checkSameKeys(t, "", v, schema, "global")
}

// freeFormValues lists the objects whose keys are not defined by the chart, but by Kubernetes, the user or,
// for config, by regcred schema.
var freeFormValues = []string{"config", "nodeSelector", "affinity", "resources", "podAnnotations", "podLabels", "appArmorProfile"}

func checkSameKeys(t *testing.T, path string, v, schema map[string]any, but ...string) {
	t.Helper()
	if schema["additionalProperties"] != false {
		t.Errorf("the schema of %q takes other keys", path)
	}
	properties, _ := schema["properties"].(map[string]any)
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(properties)), func(key string) bool { return slices.Contains(but, key) })
	if diff := cmp.Diff(slices.Sorted(maps.Keys(v)), known); diff != "" {
		t.Errorf("keys of %q (-values.yaml +schema):\n%s", path, diff)
	}
	for key, value := range v {
		if next, ok := value.(map[string]any); ok && !slices.Contains(freeFormValues, key) {
			checkSameKeys(t, strings.TrimPrefix(path+"."+key, "."), next, properties[key].(map[string]any))
		}
	}
}

// TestSchemaRefuses verifies that Helm rejects an invalid value before it changes the cluster, and
// reports the value's position.
func TestSchemaRefuses(t *testing.T) {
	one := func(changes ...any) []any { return []any{providerValues("registry.example", changes...)} }
	plugin := func(name, image string, paths ...any) []any {
		return []any{map[string]any{"name": name, "image": image, "paths": paths}}
	}
	for _, tt := range []struct {
		name    string
		changes values
		place   string // position and message of the error
	}{
		{"no provider", values{"config.providers": []any{}}, "'/config/providers': minItems"},
		{"no pattern", values{"config.providers": one("matchImages", []any{})}, "'/config/providers/0/matchImages': minItems"},
		{"a pattern that is a number", values{"config.providers": one("matchImages", []any{5})}, "'/config/providers/0/matchImages/0': got number, want string"},
		{"a misspelt field", values{"config.providers": one("matchImage", "registry.example")}, "'/config/providers/0': additional properties 'matchImage' not allowed"},
		{"a cache duration without unit", values{"config.providers": one("defaultCacheDuration", "10")}, "'/config/providers/0/defaultCacheDuration'"},
		{"a name with a path", values{"config.providers": one("name", "bin/static")}, "'/config/providers/0/name'"},
		{"a provider of an old version with tokenAttributes", values{"config.providers": one(
			"apiVersion", "credentialprovider.kubelet.k8s.io/v1beta1",
			"tokenAttributes", map[string]any{"serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": true},
		)}, "'/config/providers/0/apiVersion'"},
		{"another kind", values{"config.kind": "RegistryCredentialConfig"}, "'/config/kind'"},
		{"a misspelt value", values{"mod": "DryRun"}, "additional properties 'mod' not allowed"},
		{"a misspelt value below", values{"metrics.ports": 1}, "'/metrics': additional properties 'ports' not allowed"},
		{"mode", values{"mode": "dryrun"}, "'/mode'"},
		{"no mode: the first install would go to all nodes at once", values{"mode": ""}, "'/mode': value must be one of 'Install', 'DryRun'"},
		{"a kubelet that is restarted without time to see it", values{"minReadySeconds": 9}, "'/minReadySeconds': minimum: got 9, want 10"},
		{"a relative directory of generations", values{"stateDir": "regcred"}, "'/stateDir'"},
		{"generations that a boot removes", values{"stateDir": "/run/regcred"}, "'/stateDir': 'not' failed"},
		{"generations in a directory for temporary files", values{"stateDir": "/var/tmp/regcred"}, "'/stateDir': 'not' failed"},
		{"generations in another directory", values{"stateDir": "/var/lib/../../run/regcred"}, "'/stateDir': 'not' failed"},
		{"generations in a directory above", values{"stateDir": "/etc/.."}, "'/stateDir': 'not' failed"},
		{"restart", values{"restart": true}, "'/restart'"},
		{"state", values{"state": "Absent"}, "'/state'"},
		{"a probe with a blank", values{"probe.image": "registry.example/app v1"}, "'/probe/image'"},
		{"a probe that is a flag", values{"probe.image": "--restart"}, "'/probe/image'"},
		{"a reserved pattern that a kubelet's variable is", values{"reserve": []any{"$(POD_UID)"}}, "'/reserve/0'"},
		{"max-stale", values{"maxStale": "5 minutes"}, "'/maxStale'"},
		{"timeout that is a number", values{"timeout": 240}, "'/timeout': got number, want string"},
		{"timeout of nothing", values{"timeout": "0m0s"}, "'/timeout': 'not' failed"},
		{"max-stale that no program reads", values{"maxStale": "99999999999h"}, "'/maxStale'"},
		{"more nodes than YAML writes in digits", values{"updateStrategy.maxUnavailable": 1000000}, "'/updateStrategy/maxUnavailable'"},
		{"keep", values{"keep": 0}, "'/keep'"},
		{"a relative root directory", values{"kubeletRootDir": "var/lib/kubelet"}, "'/kubeletRootDir'"},
		{"maxUnavailable 0 stops for ever", values{"updateStrategy.maxUnavailable": 0}, "'/updateStrategy/maxUnavailable'"},
		{"maxUnavailable in per cent", values{"updateStrategy.maxUnavailable": "0%"}, "'/updateStrategy/maxUnavailable'"},
		{"a tag in the repository", values{"image.repository": "registry.example/regcred:v1"}, "'/image/repository'"},
		{"a digest of a tag", values{"image.digest": "v1"}, "'/image/digest'"},
		{"pull policy", values{"image.pullPolicy": "Sometimes"}, "'/image/pullPolicy'"},
		{"pull secrets as names", values{"imagePullSecrets": []any{"pull"}}, "'/imagePullSecrets/0': got string, want object"},
		{"a plugin image without files", values{"plugins.images": plugin("vendor", "registry.example/p:v1")}, "'/plugins/images/0/paths'"},
		{"a relative file of a plugin", values{"plugins.images": plugin("vendor", "registry.example/p:v1", "bin/p")}, "'/plugins/images/0/paths/0'"},
		{"a plugin image's name", values{"plugins.images": plugin("Vendor", "registry.example/p:v1", "/p")}, "'/plugins/images/0/name'"},
		{"a pod label that selects", values{"podLabels": map[string]any{"app.kubernetes.io/instance": "x"}}, "'/podLabels/app.kubernetes.io~1instance'"},
		{"SELinux type", values{"seLinux.type": "system_u:system_r:spc_t"}, "'/seLinux/type'"},
		{"AppArmor profile", values{"appArmorProfile": map[string]any{"type": "unconfined"}}, "'/appArmorProfile/type'"},
		{"a PodMonitor without metrics", values{"podMonitor.enabled": true, "metrics.enabled": false}, "'/metrics/enabled'"},
		{"uninstall's time", values{"uninstall.timeoutSeconds": "5m"}, "'/uninstall/timeoutSeconds': got string, want integer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := helm.New(t, program, "").Output(t.Context(), "template", release, helm.ChartDir(t), withValues(tt.changes).writeFile(t))
			if err == nil {
				t.Fatal("it is taken")
			}
			if !strings.Contains(err.Error(), tt.place) {
				t.Errorf("got %v\nwant in it: %s", err, tt.place)
			}
		})
	}
}

// TestLint verifies that helm lint --strict has no findings, and that it reports missing values.
func TestLint(t *testing.T) {
	h := helm.New(t, program, "")
	h.Run(t, "lint", "--strict", helm.ChartDir(t), withValues(nil).writeFile(t))
	out, _, err := h.Output(t.Context(), "lint", "--strict", helm.ChartDir(t))
	if err == nil || !strings.Contains(out, "'/config/providers': minItems") {
		t.Errorf("without values: %v\n%s", err, out)
	}
}
