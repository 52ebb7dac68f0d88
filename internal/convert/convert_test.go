// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// writeFile writes a file and returns its path.
func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// convertText converts one file.
func convertText(t *testing.T, text string, layout Layout, o Options) *Result {
	t.Helper()
	res, err := Convert(writeFile(t, t.TempDir(), "config.yaml", text), layout, o)
	if err != nil {
		canary.AssertAbsent(t, "the error", err.Error())
		t.Fatal(err)
	}
	return res
}

// joinedContents returns the concatenated contents of a result's files.
func joinedContents(res *Result) string {
	var b strings.Builder
	for _, f := range res.Files {
		if len(res.Files) > 1 {
			b.WriteString("=== " + f.baseName() + "\n")
		}
		b.Write(f.Data)
	}
	return b.String()
}

// compareText compares two texts. It masks planted secrets in the output.
func compareText(t *testing.T, want, got string) {
	t.Helper()
	mask := strings.NewReplacer(canary.Marker, "MASKED-")
	if diff := cmp.Diff(mask.Replace(want), mask.Replace(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// v1beta1Config is a v1beta1 file with unusual formatting.
const v1beta1Config = `# Licence: ours

kind:   CredentialProviderConfig   # the kind
# to be v1 soon
apiVersion: 'kubelet.config.k8s.io/v1beta1'
providers:

- name:  "ecr"   # the first
  matchImages: [ "*.dkr.ecr.*.amazonaws.com" ,
    public.ecr.aws ]
  # twelve hours
  defaultCacheDuration:  720m
  apiVersion: "credentialprovider.kubelet.k8s.io/v1beta1" # old
  args: ['` + canary.ArgSecret + `', "a: b # c"]
  env:
  - {value: "` + canary.EnvSecret + `", name: TOKEN}

- name: second
  matchImages:
  - "registry.example:5000/team"
  defaultCacheDuration: "0"
  apiVersion: credentialprovider.kubelet.k8s.io/v1alpha1
# the end
`

const v1alpha1JSONConfig = "\t{ \"kind\":\"CredentialProviderConfig\",\n" +
	"\t\"providers\": [ {\"matchImages\":[\"r.example\"], \"name\":\"a\", \"defaultCacheDuration\":\"1h\",\n" +
	"\t\"apiVersion\" : \"credentialprovider.kubelet.k8s.io/v1beta1\"}],\n" +
	"\t\"apiVersion\": \"kubelet.config.k8s.io/v1alpha1\" }"

// oneLine contains multibyte characters. Before the apiVersion field, it contains the version as
// another field's value.
const oneLine = `"kind": CredentialProviderConfig
"providers": [{name: é, matchImages: [kubelet.config.k8s.io/v1beta1], defaultCacheDuration: 0s, apiVersion: credentialprovider.kubelet.k8s.io/v1}]
# é
!!str "apiVersion": kubelet.config.k8s.io/v1beta1`

// aliasedConfig sets the apiVersion of its providers with an alias. The same text also occurs earlier as
// another value.
const aliasedConfig = `kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1
providers:
- {name: é, matchImages: [credentialprovider.kubelet.k8s.io/v1beta1], defaultCacheDuration: 0s, apiVersion: &v credentialprovider.kubelet.k8s.io/v1beta1}
- {name: b, matchImages: [b.example], defaultCacheDuration: 0s, apiVersion: *v}
`

// TestConvertEdits verifies that only the version changes in the text if nothing else needs to
// change.
func TestConvertEdits(t *testing.T) {
	v1 := strings.Replace(v1beta1Config, "io/v1beta1'", "io/v1'", 1)
	v1JSON := strings.Replace(v1alpha1JSONConfig, "io/v1alpha1", "io/v1", 1)
	protocol := strings.NewReplacer(`s.io/v1beta1"`, `s.io/v1"`, "s.io/v1alpha1\n", "s.io/v1\n")
	toV1 := Options{PluginAPIVersion: plugin.V1}
	tests := []struct {
		name, source, want string
		options            Options
	}{
		{"v1beta1", v1beta1Config, v1, Options{}},
		{"v1alpha1", strings.Replace(v1beta1Config, "io/v1beta1'", "io/v1alpha1'", 1), v1, Options{}},
		{"v1", v1, v1, Options{}},
		{"v1, the format that it has", v1, v1, Options{Format: YAML}},
		{"carriage returns", strings.ReplaceAll(v1beta1Config, "\n", "\r\n"), strings.ReplaceAll(v1, "\n", "\r\n"), Options{}},
		{"byte order mark", "\ufeff" + v1beta1Config, "\ufeff" + v1, Options{}},
		{"directive and mark", "%YAML 1.1\n---\n" + v1beta1Config, "%YAML 1.1\n---\n" + v1, Options{}},
		{"second document", v1beta1Config + "---\n" + v1beta1Config, v1 + "---\n" + v1beta1Config, Options{}},
		{"anchor and tag", strings.Replace(v1beta1Config, "'kubelet", "&v !!str 'kubelet", 1), strings.Replace(v1, "'kubelet", "&v !!str 'kubelet", 1), Options{}},
		{"version below its key", strings.Replace(v1beta1Config, "apiVersion: 'k", "apiVersion:\n  'k", 1), strings.Replace(v1, "apiVersion: 'k", "apiVersion:\n  'k", 1), Options{}},
		{"no line at the end", oneLine, strings.TrimSuffix(oneLine, "beta1"), Options{}},
		{"JSON", v1alpha1JSONConfig, v1JSON, Options{}},
		{"protocol", v1beta1Config, protocol.Replace(v1), toV1},
		{"protocol in v1", v1, protocol.Replace(v1), toV1},
		{"protocol in JSON", v1alpha1JSONConfig, protocol.Replace(v1JSON), toV1},
		{"protocol by an alias", aliasedConfig, strings.Replace(aliasedConfig, "&v credentialprovider.kubelet.k8s.io/v1beta1", "&v credentialprovider.kubelet.k8s.io/v1", 1), toV1},
		{"older protocol", v1, strings.Replace(v1, "s.io/v1alpha1\n", "s.io/v1beta1\n", 1), Options{PluginAPIVersion: plugin.V1Beta1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := convertText(t, tt.source, LayoutKeep, tt.options)
			compareText(t, tt.want, joinedContents(res))
			if got, want := res.Files[0].IsChanged(), tt.want != tt.source; got != want {
				t.Errorf("Changed: got %v, want %v", got, want)
			}
			if len(res.LostComments) > 0 {
				t.Errorf("lost: %v", res.LostComments)
			}
		})
	}
}

// TestConvertWritesAnew verifies that a file that cannot be edited in place is rewritten without
// comments.
func TestConvertWritesAnew(t *testing.T) {
	const head = "kind: CredentialProviderConfig\napiVersion: "
	const entry = "  # one\n  - name: a\n    matchImages:\n      - r.example\n    defaultCacheDuration: 1h\n    apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
	want := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" + strings.TrimPrefix(entry, "  # one\n")
	utf16le := "\xff\xfe"
	for _, u := range utf16.Encode([]rune(head + "kubelet.config.k8s.io/v1beta1\nproviders:\n" + entry)) {
		utf16le += string([]byte{byte(u), byte(u >> 8)})
	}
	const inJSON = `{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io\/v1beta1","providers":[` +
		`{"name":"a","matchImages":["r.example/<x>"],"defaultCacheDuration":"3600s","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}`
	const wantJSON = `{
  "apiVersion": "kubelet.config.k8s.io/v1",
  "kind": "CredentialProviderConfig",
  "providers": [
    {
      "name": "a",
      "matchImages": [
        "r.example/<x>"
      ],
      "defaultCacheDuration": "1h",
      "apiVersion": "credentialprovider.kubelet.k8s.io/v1"
    }
  ]
}
`
	tests := []struct{ name, source, want string }{
		{"escape in JSON", inJSON, wantJSON},
		{"UTF-16", utf16le, want},
		{"the version is a pattern, too", head + "&x kubelet.config.k8s.io/v1beta1\nproviders:\n" + strings.Replace(entry, "r.example", "*x", 1),
			strings.Replace(want, "r.example", "kubelet.config.k8s.io/v1beta1", 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { compareText(t, tt.want, joinedContents(convertText(t, tt.source, LayoutKeep, Options{}))) })
	}
}

// TestConvertQuotes verifies that every string is still a string in the resulting YAML.
func TestConvertQuotes(t *testing.T) {
	words := []string{"yes", "Y", "on", "OFF", "~", "null", "True", "1:20", "0x1f", "0o7", "012", "1_000", "1e3", ".5", ".inf", "=", "<<", "-", "- a", "?", "!!str a",
		"#", "a #b", "a: b", "a:", "[a", "{a", "*a", "&a", "%a", "@a", "|", ">", "\"", "'", "", " ", " a", "a ", "2001-01-01", "é", "\u2028", "\u0085", "\ufeff", "\U0001f600",
		"a\nb", "a\n", "\n", "\ta", "\x01", "---", "--- a", "...", "a\n--- b", "12h", "a.b/c-d_e1", "-v=2", "--v"}
	for _, word := range words {
		for _, field := range []string{"args", "matchImages"} {
			quoted := must.Get(json.Marshal(word))(t)
			file := `{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1","providers":[{"name":"a","` + field + `":[` + string(quoted) + `,"b"]}]}`
			inYAML := joinedContents(convertText(t, file, LayoutKeep, Options{Format: YAML}))
			again := joinedContents(convertText(t, inYAML, LayoutSplit, Options{}))
			if again != inYAML {
				t.Errorf("%s %q: got\n%s\nand written again\n%s", field, word, inYAML, again)
			}
		}
	}
}
