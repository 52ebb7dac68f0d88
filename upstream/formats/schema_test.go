// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package formats

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
)

const modulePath = "../.."

// compileSchemas compiles the schema for all versions together and the schema of each version.
func compileSchemas(t *testing.T) (all *jsonschema.Schema, each map[string]*jsonschema.Schema) {
	t.Helper()
	each = map[string]*jsonschema.Schema{}
	for _, version := range []string{config.V1, config.V1Beta1, config.V1Alpha1} {
		each[version] = compileSchema(t, version)
	}
	return compileSchema(t, ""), each
}

func compileSchema(t *testing.T, version string) *jsonschema.Schema {
	t.Helper()
	data := must.Get(config.Schema(version))(t)
	doc := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(data)))(t)
	c := jsonschema.NewCompiler() // validates the schema against its dialect
	must.Do(t, c.AddResource("schema.json", doc))
	return must.Get(c.Compile("schema.json"))(t)
}

// decodeDocument decodes a file for a schema validator. It returns nil if the file does not contain an
// object.
func decodeDocument(content []byte) map[string]any {
	data, err := yaml.YAMLToJSON(content)
	if err != nil {
		return nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	fields, _ := doc.(map[string]any)
	return fields
}

// hasNull reports whether a value contains null. A kubelet treats null as missing, but a schema
// rejects it.
func hasNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return slices.ContainsFunc(v, hasNull)
	case map[string]any:
		for _, value := range v {
			if hasNull(value) {
				return true
			}
		}
	}
	return false
}

// TestSchemaOfKubelet verifies that the schemas accept every file that the real kubelet accepts. It
// uses Validate, which agrees with the kubelet.
func TestSchemaOfKubelet(t *testing.T) {
	all, each := compileSchemas(t)
	data := must.Get(os.ReadFile(filepath.Join(modulePath, "testdata/parity/config.json")))(t)
	var recorded struct {
		Cases []struct {
			Name  string
			IsDir bool
			Files []struct{ Content any } // a string, or a description of a long string
		}
	}
	must.Do(t, json.Unmarshal(data, &recorded))
	taken, refused, told := 0, 0, 0
	for _, c := range recorded.Cases {
		if len(c.Files) != 1 || c.IsDir {
			continue
		}
		content, _ := c.Files[0].Content.(string)
		doc := decodeDocument([]byte(content))
		if doc == nil || hasNull(doc) || strings.ContainsFunc(content, func(r rune) bool { return r == 'İ' || r == '\u212a' }) {
			continue // see SchemaOf; the two letters become ASCII in lower case
		}
		cfg, refusal := config.Parse(c.Name, []byte(content))
		if refusal == nil {
			refusal = cfg.ValidateFor(config.Target{KubeletVersion: config.NewestKubelet})
		}
		err := all.Validate(doc)
		version, _ := doc["apiVersion"].(string)
		if one := each[version]; one != nil && (one.Validate(doc) == nil) != (err == nil) {
			t.Errorf("%s: the schema of %s and that of all do not agree", c.Name, version)
		}
		switch {
		case refusal == nil:
			taken++
			if err != nil {
				t.Errorf("%s: the kubelet takes it, and the schema does not: %v", c.Name, err)
			}
		default:
			refused++
			if err != nil {
				told++
			}
		}
	}
	t.Logf("of %d files that the kubelet takes the schema takes all; of %d that it refuses it refuses %d", taken, refused, told)
	if taken < 100 || told < 100 {
		t.Error("these are too few")
	}
}

// TestSchemaOfSamples verifies that the schema accepts each valid configuration in this repository.
func TestSchemaOfSamples(t *testing.T) {
	all, _ := compileSchemas(t)
	samples := 0
	err := filepath.WalkDir(modulePath, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == ".git" || e.Name() == "node_modules"):
			return filepath.SkipDir
		case e.IsDir() || !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(path)):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.Contains(string(data), "CredentialProviderConfig") {
			return nil
		}
		cfg, err := config.Parse(path, data)
		if err != nil || cfg.ValidateFor(config.Target{KubeletVersion: config.NewestKubelet}) != nil {
			return nil
		}
		samples++
		if err := all.Validate(decodeDocument(data)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil || samples < 25 {
		t.Errorf("%d samples, %v", samples, err)
	}
}

// TestSchemaRefuses verifies that each keyword of the schema rejects an invalid configuration.
func TestSchemaRefuses(t *testing.T) {
	all, _ := compileSchemas(t)
	const good = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: ecr
  matchImages: ["*.example.com"]
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  env: [{name: A, value: b}]
  tokenAttributes:
    serviceAccountTokenAudience: aud
    cacheType: Token
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [a.example/b]
`
	must.Do(t, all.Validate(decodeDocument([]byte(good))))
	for _, change := range [][2]string{
		{"kubelet.config.k8s.io/v1\n", "kubelet.config.k8s.io/v2\n"},
		{"apiVersion: kubelet.config.k8s.io/v1\n", ""},
		{"kind: CredentialProviderConfig", "kind: KubeletConfiguration"},
		{"kind: CredentialProviderConfig\n", ""},
		{"providers:\n", "provider:\n"},
		{"name: ecr", "name: bin/ecr"},
		{"name: ecr", `name: 'bin\ecr'`},
		{"name: ecr", "name: my ecr"},
		{"name: ecr", "name: .."},
		{"name: ecr", "name: 7"},
		{`["*.example.com"]`, "[]"},
		{`["*.example.com"]`, `"*.example.com"`},
		{"matchImages", "matchimages"},
		{"12h", "12"},
		{"12h", `"12 h"`},
		{"12h", "-1h"},
		{"  defaultCacheDuration: 12h\n", ""},
		{"credentialprovider.kubelet.k8s.io/v1", "v1"},
		{"credentialprovider.kubelet.k8s.io/v1", "credentialprovider.kubelet.k8s.io/v1beta1"}, // invalid with tokenAttributes
		{"kubelet.config.k8s.io/v1\n", "kubelet.config.k8s.io/v1beta1\n"},                     // this version has no tokenAttributes
		{"[{name: A, value: b}]", "{A: b}"},
		{"[{name: A, value: b}]", "[{name: A, value: 1}]"},
		{"Audience: aud", `Audience: ""`},
		{"cacheType: Token", "cacheType: token"},
		{"    cacheType: Token\n", ""},
		{"requireServiceAccount: true", "requireServiceAccount: yes please"},
		{"requireServiceAccount: true", "requireServiceAccount: false"}, // invalid with required annotations
		{"[a.example/b]", "[a.example/b, a.example/b]"},
		{"[a.example/b]", "[-a]"},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if text == good {
			t.Fatalf("%q is not in it", change[0])
		}
		if err := all.Validate(decodeDocument([]byte(text))); err == nil {
			t.Errorf("%q in place of %q is taken", change[1], change[0])
		}
		if cfg, err := config.Parse("f", []byte(text)); err == nil && cfg.Validate() == nil {
			t.Errorf("%q in place of %q: and a kubelet takes it", change[1], change[0])
		}
	}
}
