// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

const (
	testHeader     = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n"
	testProvider = `- name: ecr
  matchImages: ["*.example.com"]
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`
	testConfig = testHeader + "providers:\n" + testProvider
	testJSON   = `{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[` +
		`{"name":"ecr","matchImages":["*.example.com"],"defaultCacheDuration":"12h","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}`
)

// writeFile writes a file for Load and returns its path.
func writeFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// errorLines returns the lines of an error in order, without the directories of the files. It
// fails the test if an error is not a FieldError or contains a secret of the tests.
func errorLines(t testing.TB, dir string, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	canary.AssertAbsent(t, "error", err.Error())
	canary.AssertAbsent(t, "error, in Go syntax", fmt.Sprintf("%#v", flattenErrors(err)))
	var lines []string
	for _, e := range flattenErrors(err) {
		if _, ok := e.(*FieldError); !ok {
			t.Errorf("%T is not a *FieldError", e)
		}
		lines = append(lines, strings.ReplaceAll(e.Error(), dir+string(filepath.Separator), ""))
	}
	return lines
}

// flattenErrors returns the errors that were joined with errors.Join.
func flattenErrors(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flattenErrors(e)...)
	}
	return all
}

func TestLoad(t *testing.T) {
	all := `- name: all
  matchImages: [a.example, "*.b.example"]
  defaultCacheDuration: 1h30m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get-credentials, ` + canary.ArgSecret + `]
  env:
  - name: TOKEN
    value: ` + canary.EnvSecret + `
  tokenAttributes:
    serviceAccountTokenAudience: aud
    cacheType: Token
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [a/b]
    optionalServiceAccountAnnotationKeys: [c]
`
	want := []Provider{{
		Name: "all", MatchImages: []string{"a.example", "*.b.example"}, DefaultCacheDuration: new(90 * time.Minute),
		APIVersion: plugin.V1, Args: []plugin.Secret{plugin.NewSecret("get-credentials"), plugin.NewSecret(canary.ArgSecret)}, Env: []EnvVar{{"TOKEN", plugin.NewSecret(canary.EnvSecret)}},
		TokenAttributes: &TokenAttributes{
			ServiceAccountTokenAudience: "aud", CacheType: CachePerToken, RequireServiceAccount: new(true),
			RequiredServiceAccountAnnotationKeys: []string{"a/b"}, OptionalServiceAccountAnnotationKeys: []string{"c"},
		},
	}}
	got := must.Get(Load(writeFile(t, "config", testHeader+"providers:\n"+all)))(t)
	if !cmp.Equal(want, got.Providers) {
		t.Error("the providers are not those in the file") // a diff would print secrets
	}
}

// TestLoadAccepts verifies that Load returns the same provider for all spellings that the
// kubelet accepts.
func TestLoadAccepts(t *testing.T) {
	for name, content := range map[string]string{
		"YAML":                 testConfig,
		"JSON":                 testJSON,
		"JSON after blanks":    " \n\t" + testJSON,
		"JSON, spread":         strings.ReplaceAll(testJSON, ",", ",\r\n\t"),
		"v1beta1":              strings.Replace(testConfig, "io/v1\n", "io/v1beta1\n", 1),
		"v1alpha1":             strings.Replace(testConfig, "io/v1\n", "io/v1alpha1\n", 1),
		"CRLF":                 strings.ReplaceAll(testConfig, "\n", "\r\n"),
		"BOM":                  "\ufeff" + testConfig,
		"second document":      testConfig + "---\nkind: Other\n",
		"broken second":        testConfig + "---\n{ [ :\n",
		"anchors":              testHeader + "providers:\n- &a\n  name: &n ecr\n  matchImages: [\"*.example.com\"]\n  defaultCacheDuration: 12h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n",
		"merge":                testHeader + "providers:\n- <<: {name: ecr, defaultCacheDuration: 12h}\n  matchImages: [\"*.example.com\"]\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n",
		"null where it may be": testConfig + "  args: null\n  env:\n  tokenAttributes: ~\n",
	} {
		c, err := Load(writeFile(t, "config.yaml", content))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := []Provider{{Name: "ecr", MatchImages: []string{"*.example.com"}, DefaultCacheDuration: new(12 * time.Hour), APIVersion: plugin.V1}}
		if diff := cmp.Diff(want, c.Providers); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: validate: %v", name, err)
		}
	}
}

func TestLoadRejects(t *testing.T) {
	const wrongKey = "has an unknown field; the known fields are "
	const providerKeys = "apiVersion, args, defaultCacheDuration, env, matchImages, name and tokenAttributes"
	replace := func(old, new string) string {
		if !strings.Contains(testConfig, old) {
			t.Fatalf("%q is not in the test configuration", old)
		}
		return strings.Replace(testConfig, old, new, 1)
	}
	tests := []struct {
		name, content string
		want          []string
	}{
		{"empty", "", []string{"f: is empty: add a CredentialProviderConfig of version kubelet.config.k8s.io/v1"}},
		{"comment alone", "# c\n", []string{"f: is empty: add a CredentialProviderConfig of version kubelet.config.k8s.io/v1"}},
		{"binary", "\x7fELF\x00\x01\x02", []string{"f: not valid YAML: the file contains control characters"}},
		{"not UTF-8", replace("ecr", "\xff"), []string{"f: not valid YAML: the file is not UTF-8 text"}},
		{"list", "- a\n", []string{"f:1:1: is a list, but must be a mapping"}},
		{"scalar", "a\n", []string{`f:1:1: is a string, but must be a mapping: "a"`}},
		{"no kind", replace("kind: CredentialProviderConfig\n", ""), []string{"f:1:1: kind: missing: set it to CredentialProviderConfig"}},
		{"no apiVersion", replace("apiVersion: kubelet.config.k8s.io/v1\n", ""), []string{"f:1:1: apiVersion: missing or without a version: set it to kubelet.config.k8s.io/v1"}},
		{"group alone", replace("kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/"), []string{"f:1:13: apiVersion: missing or without a version: set it to kubelet.config.k8s.io/v1"}},
		{"unknown version", replace("kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v2"), []string{`f:1:13: apiVersion: not supported: must be kubelet.config.k8s.io/v1, kubelet.config.k8s.io/v1beta1 or kubelet.config.k8s.io/v1alpha1: "kubelet.config.k8s.io/v2"`}},
		{"internal version", replace("kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/__internal"), []string{`f:1:13: apiVersion: not supported: must be kubelet.config.k8s.io/v1, kubelet.config.k8s.io/v1beta1 or kubelet.config.k8s.io/v1alpha1: "kubelet.config.k8s.io/__internal"`}},
		{"version of the protocol", replace("kubelet.config", "credentialprovider.kubelet"), []string{`f:1:13: apiVersion: this version is for a provider, not for the file: use kubelet.config.k8s.io/v1 here: "credentialprovider.kubelet.k8s.io/v1"`}},
		{"kubelet configuration", "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\naddress: 127.0.0.1\n", []string{`f:1:7: kind: the kubelet's main configuration, but --image-credential-provider-config needs a separate file of kind CredentialProviderConfig: "KubeletConfiguration"`}},
		{"predecessor's fields", replace("matchImages", "imageMatchers") + "  extraArgs: {a: b}\n", []string{
			"f:5:3: providers[0].imageMatchers: unknown field: matchImages was called imageMatchers in the out-of-tree proposal",
			"f:8:3: providers[0].extraArgs: unknown field: this field exists only in the out-of-tree proposal: use args or env"}},
		{"another kind", replace("CredentialProviderConfig", "Pod"), []string{`f:2:7: kind: unsupported kind: must be CredentialProviderConfig: "Pod"`}},
		{"kind in another case", replace("kind:", "Kind:"), []string{"f:2:1: Kind: unknown field: did you mean kind? (case matters)"}},
		{"kind is a number", replace("CredentialProviderConfig", "5"), []string{
			"f:2:7: kind: missing: set it to CredentialProviderConfig",
			`f:2:7: kind: is a number, but must be a string: quote it: "5"`}},
		{"several unknown fields", replace("matchImages", "matchimages") + "  foo: 1\n  deFaultCache: 1\n  tokenAttribute: x\nmetadata: {}\n", []string{
			"f:5:3: providers[0].matchimages: unknown field: did you mean matchImages? (case matters)",
			"f:8:3: providers[0].foo: unknown field; the known fields are apiVersion, args, defaultCacheDuration, env, matchImages, name and tokenAttributes",
			"f:9:3: providers[0].deFaultCache: unknown field; the known fields are apiVersion, args, defaultCacheDuration, env, matchImages, name and tokenAttributes",
			"f:10:3: providers[0].tokenAttribute: unknown field: did you mean tokenAttributes?",
			"f:11:1: metadata: unknown field; the known fields are apiVersion, kind and providers"}},
		{"separators", replace("matchImages", "match_images"), []string{"f:5:3: providers[0].match_images: unknown field: did you mean matchImages? (case matters)"}},
		{"tokenAttributes in v1beta1", strings.Replace(testConfig, "io/v1\n", "io/v1beta1\n", 1) + "  tokenAttributes: null\n", []string{"f:8:3: providers[0].tokenAttributes: unknown field: supported only in version kubelet.config.k8s.io/v1"}},
		{"tokenAttributes in v1alpha1", strings.Replace(testConfig, "io/v1\n", "io/v1alpha1\n", 1) + "  tokenAttributes: {cacheType: Token}\n", []string{"f:8:3: providers[0].tokenAttributes: unknown field: supported only in version kubelet.config.k8s.io/v1"}},
		{"unknown field in tokenAttributes", testConfig + "  tokenAttributes: {cachetype: Token}\n", []string{"f:8:21: providers[0].tokenAttributes.cachetype: unknown field: did you mean cacheType? (case matters)"}},
		{"boolean name", replace("name: ecr", "name: yes"), []string{`f:4:9: providers[0].name: is a boolean, but must be a string: quote it (YAML parses yes, no, on and off as booleans): "true"`}},
		{"number name", replace("name: ecr", "name: 5"), []string{`f:4:9: providers[0].name: is a number, but must be a string: quote it: "5"`}},
		{"string for boolean", testConfig + "  tokenAttributes: {requireServiceAccount: \"true\"}\n", []string{`f:8:44: providers[0].tokenAttributes.requireServiceAccount: is a string, but must be a boolean: "true"`}},
		{"text for list", replace(`["*.example.com"]`, "a.example"), []string{`f:5:16: providers[0].matchImages: is a string, but must be a list: put a dash before each item: "a.example"`}},
		{"list for text", replace("ecr", "[ecr]"), []string{"f:4:9: providers[0].name: is a list, but must be a string"}},
		{"providers not a list", testHeader + "providers: {name: x}\n", []string{"f:3:12: providers: is a mapping, but must be a list: put a dash before its first field"}},
		{"number for duration", replace("12h", "12"), []string{`f:6:25: providers[0].defaultCacheDuration: is a number, but must be a duration in quotes, such as "12h", "10m" or "0s": "12"`}},
		{"day for duration", replace("12h", "1d"), []string{`f:6:25: providers[0].defaultCacheDuration: invalid duration: use a number with a unit, such as "12h", "10m" or "0s": "1d"`}},
		{"duplicate field", testConfig + "  name: other\n", []string{"f:8:3: providers[0].name: a field is set twice: remove one of them"}},
		{"duplicate at the top", testConfig + "kind: CredentialProviderConfig\n", []string{"f:8:1: kind: a field is set twice: remove one of them"}},
		{"duplicate in JSON", strings.Replace(testJSON, `"name":`, `"name":"x","name":`, 1), []string{"f:1:101: providers[0].name: a field is set twice: remove one of them"}},
		{"merged twice", testConfig + "  <<: {name: x}\n", []string{"f:8:3: providers[0]: a field is set here and by the merge key <<: set it only once"}},
		{"merged twice, from two", testConfig + "  <<: [{args: [a]}, {args: [b]}]\n", []string{"f:8:3: providers[0]: a field is set here and by the merge key <<: set it only once"}},
		{"duplicate provider", testConfig + testProvider, []string{`f:8:9: providers[1].name: duplicate provider name (also at f:4:9); names must be unique across all files: "ecr"`}},
		{"unquoted asterisk", replace(`["*.example.com"]`, "\n  - *.example.com"), []string{"f:6:5: not valid YAML: a value that begins with * must be quoted; otherwise YAML parses the value as an alias"}},
		{"unquoted asterisk, a name", replace(`["*.example.com"]`, "[*example.com]"), []string{"f:5:17: not valid YAML: a value that begins with * must be quoted; otherwise YAML parses the value as an alias"}},
		{"an alias, and an asterisk", replace(`["*.example.com"]`, "&m [a.example]\n  args: *m\n  env: [*.x]"), []string{"f:7:9: not valid YAML: a value that begins with * must be quoted; otherwise YAML parses the value as an alias"}},
		{"tab", replace("  matchImages", "\tmatchImages"), []string{"f:5:1: not valid YAML: the line is indented with a tab; use spaces"}},
		{"unclosed bracket", replace("com\"]", "com\""), []string{"f:6:3: not valid YAML: missing comma or closing bracket before this position"}},
		{"missing comma", replace("com\"]", "com\" \"b\"]"), []string{"f:5:3: not valid YAML: missing comma or closing bracket before this position"}},
		{"unquoted IPv6", replace(`["*.example.com"]`, "\n  - [::1]:5000"), []string{"f:6:3: not valid YAML: expected a value here; quote values that contain brackets, colons or commas, such as an IPv6 address"}},
		{"text behind a quote", replace("name: ecr", `name: "ecr" x`), []string{"f:4:1: not valid YAML: expected a field here; check the indentation and the quotes"}},
		{"colons, and an unknown field", replace(`["*.example.com"]`, `["a:80:80", "a b"]`) + "  foo: x\n", []string{`f:5:28: providers[0].matchImages[1]: invalid pattern for the kubelet: contains characters that are not allowed in an image name: "a…"`, "f:8:3: providers[0].foo: unknown field; the known fields are apiVersion, args, defaultCacheDuration, env, matchImages, name and tokenAttributes"}},
		{"unclosed quote", replace("com\"]", "com]"), []string{"f:8:1: not valid YAML: missing closing quote"}},
		{"bad indentation", replace("  matchImages", "   matchImages"), []string{"f:5:4: not valid YAML: unexpected colon; check the indentation, and quote values that contain a colon"}},
		{"mapping for key", testConfig + "  {a: b}: c\n", []string{"f: not valid YAML: a field name cannot be a mapping or a list"}},
		{"JSON with a comment", "{ // c\n", []string{"f:1:3: not valid JSON from here on (a file that begins with { must be JSON without comments or trailing commas)"}},
		{"JSON cut off", testJSON[:len(testJSON)-1], []string{"f:1:216: not valid JSON from here on (a file that begins with { must be JSON without comments or trailing commas)"}},
		// A Unicode space precedes the brace. The file is parsed as JSON, which does not allow
		// it.
		{"JSON after wide blanks", "\u00a0" + testJSON, []string{"f:1:1: not valid JSON from here on (a file that begins with { must be JSON without comments or trailing commas)"}},
		{"YAML after a brace", "{kind: x}", []string{"f:1:2: not valid JSON from here on (a file that begins with { must be JSON without comments or trailing commas)"}},
		{"column in bytes", testHeader + "providers: [{name: \"ü\", foo: 1}]\n", []string{"f:3:13: providers[0].apiVersion: missing: set the plugin's protocol version, for example credentialprovider.kubelet.k8s.io/v1", "f:3:13: providers[0].matchImages: missing: at least one pattern is required", `f:3:13: providers[0].defaultCacheDuration: required: set the default cache duration for responses that do not specify one, for example "12h"; "0s" disables caching`, "f:3:26: providers[0].foo: unknown field; the known fields are apiVersion, args, defaultCacheDuration, env, matchImages, name and tokenAttributes"}},
		{"through an alias", testHeader + "providers:\n- name: a\n  tokenAttributes: &t {cachetype: x}\n- name: b\n  tokenAttributes: *t\n", []string{
			"f:4:3: providers[0].apiVersion: missing: set the plugin's protocol version, for example credentialprovider.kubelet.k8s.io/v1", "f:4:3: providers[0].matchImages: missing: at least one pattern is required", `f:4:3: providers[0].defaultCacheDuration: required: set the default cache duration for responses that do not specify one, for example "12h"; "0s" disables caching`,
			"f:5:24: providers[0].tokenAttributes.cachetype: unknown field: did you mean cacheType? (case matters)",
			"f:5:24: providers[1].tokenAttributes.cachetype: unknown field: did you mean cacheType? (case matters)",
			"f:6:3: providers[1].apiVersion: missing: set the plugin's protocol version, for example credentialprovider.kubelet.k8s.io/v1", "f:6:3: providers[1].matchImages: missing: at least one pattern is required", `f:6:3: providers[1].defaultCacheDuration: required: set the default cache duration for responses that do not specify one, for example "12h"; "0s" disables caching`}},
		{"secret as a field of a provider", testConfig + "  " + canary.ArgSecret + ": 1\n", []string{"f:8:3: providers[0]: " + wrongKey + providerKeys}},
		{"secret value of the wrong type", testConfig + "  env:\n  - name: A\n    value: {" + canary.EnvSecret + ": 1}\n", []string{"f:10:12: providers[0].env[0].value: is a mapping, but must be a string"}},
		{"secret as a field of env", testConfig + "  env:\n  - " + canary.EnvSecret + ": x\n  - vlaue: " + canary.EnvSecret + "\n", []string{
			"f:9:5: providers[0].env[0]: " + wrongKey + "name and value",
			"f:10:5: providers[0].env[1].vlaue: unknown field: did you mean value?"}},
		{"secret duplicate in env", testConfig + "  env: [{name: A, " + canary.EnvSecret + ": x, " + canary.EnvSecret + ": y}]\n", []string{
			"f:8:39: providers[0].env[0]: " + wrongKey + "name and value",
			"f:8:39: providers[0].env[0]: a field is set twice: remove one of them"}},
		{"env as a mapping", testConfig + "  env: {A: " + canary.EnvSecret + "}\n", []string{"f:8:8: providers[0].env: is a mapping, but must be a list: put a dash before each variable, with separate name and value fields"}},
		{"number in env", testConfig + "  env: [{name: A, value: 12345}]\n", []string{"f:8:26: providers[0].env[0].value: is a number, but must be a string: quote it"}},
		{"args as text", testConfig + "  args: " + canary.ArgSecret + "\n", []string{"f:8:9: providers[0].args: is a string, but must be a list: put a dash before each item"}},
		{"list in args", testConfig + "  args: [[" + canary.ArgSecret + "]]\n", []string{"f:8:10: providers[0].args[0]: is a list, but must be a string"}},
		{"boolean in args", testConfig + "  args: [a, yes]\n", []string{"f:8:13: providers[0].args[1]: is a boolean, but must be a string: quote it (YAML parses yes, no, on and off as booleans)"}},
		{"alias of a secret name", testConfig + "  args: [*" + canary.ArgSecret + "]\n", []string{"f:8:10: not valid YAML: a value that begins with * must be quoted; otherwise YAML parses the value as an alias"}},
		{"secret key of a mapping key", testConfig + "  env: {{" + canary.EnvSecret + ": 1}: 2}\n", []string{"f: not valid YAML: a field name cannot be a mapping or a list"}},
		{"secret behind a missing quote", replace("name: ecr", "name: \"ecr") + "  env: [{name: A, value: " + canary.EnvSecret + "}]\n  foo: \"x\"\n", []string{"f:5:3: not valid YAML: the value begins with an unquoted * or &; quote it, and check earlier lines for a missing closing quote"}},
		{"secret run into a name", testHeader + "providers:\n- name: 'ecr\n  env: " + canary.EnvSecret + "\n  '\n  foo: 1\n", []string{"f:4:3: providers[0].apiVersion: missing: set the plugin's protocol version, for example credentialprovider.kubelet.k8s.io/v1", "f:4:3: providers[0].matchImages: missing: at least one pattern is required", `f:4:3: providers[0].defaultCacheDuration: required: set the default cache duration for responses that do not specify one, for example "12h"; "0s" disables caching`, `f:4:9: providers[0].name: must not contain spaces: rename the plugin: "ecr…"`, "f:7:3: providers[0].foo: unknown field; the known fields are apiVersion, args, defaultCacheDuration, env, matchImages, name and tokenAttributes"}},
		{"secret in broken JSON", `{"env":[{"value":"` + canary.EnvSecret + `"`, []string{"f:1:34: not valid JSON from here on (a file that begins with { must be JSON without comments or trailing commas)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := writeFile(t, "f", tt.content)
			_, err := Load(path)
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tt.want, errorLines(t, filepath.Dir(path), err)); diff != "" {
				t.Errorf("errors (-want +got)\n%s", diff)
			}
		})
	}
}

// TestLoadHostile verifies the limits that protect Load against malicious files.
func TestLoadHostile(t *testing.T) {
	deep := func(s string) string { return testHeader + "providers:\n" + strings.Repeat(s, 1<<16) }
	bomb := "a: &a [" + strings.Repeat("x, ", 9) + "x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9)+fmt.Sprintf("*%c", c-1))
	}
	tests := []struct{ name, content, want string }{
		{"50 MB", testConfig + strings.Repeat("# comment comment comment comment comment comment\n", 1e6), "f: with this file the configuration has more than 16 MiB, or more than 131072 line ends and separators (, [ { - : ?)"},
		{"a million providers", testHeader + "providers: [" + strings.Repeat("{},", 1e6) + "]", "f: with this file the configuration has more than 16 MiB, or more than 131072 line ends and separators (, [ { - : ?)"},
		{"deep YAML list", deep("["), "f:4:1: not valid YAML: missing colon after a field name; check the indentation and the quotes"},
		{"deep YAML block", deep("- "), "f:4:1: not valid YAML: nested too deeply"},
		{"deep JSON", `{"providers":` + strings.Repeat("[", 1<<16), "f:1:10013: not valid JSON: nested too deeply"},
		{"bomb of aliases", bomb, "f: YAML aliases expand to more than 16 MiB or more than 131072 values: replace the aliases with their values"},
		{"long value, many aliases", "a: &a " + strings.Repeat("z", 1<<20) + "\nb: [" + strings.Repeat("*a, ", 1000) + "]\n", "f: YAML aliases expand to more than 16 MiB or more than 131072 values: replace the aliases with their values"},
		{"alias of itself", testConfig + "  args: &a [*a]\n", "f: not valid YAML: an alias refers to itself"},
		{"merge of itself", testHeader + "providers:\n- &a\n  <<: *a\n", "f: not valid YAML: an alias refers to itself"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := writeFile(t, "f", tt.content)
			_, err := Load(path)
			if diff := cmp.Diff([]string{tt.want}, errorLines(t, filepath.Dir(path), err)); diff != "" {
				t.Errorf("errors (-want +got)\n%s", diff)
			}
		})
	}
}

func TestLoadManyProblems(t *testing.T) {
	path := writeFile(t, "f", testHeader+"providers:\n"+strings.Repeat("- foo: 1\n", 1000))
	_, err := Load(path)
	got := errorLines(t, filepath.Dir(path), err)
	if len(got) != maxFieldErrors+1 || !strings.Contains(strings.Join(got, "\n"), "too many problems") {
		t.Errorf("%d errors, want %d and one that says there are more", len(got), maxFieldErrors)
	}
}

func TestLoadDirectory(t *testing.T) {
	named := func(name string) string { return strings.Replace(testConfig, "ecr", name, 1) }
	tests := []struct {
		name  string
		files map[string]string // content by name; "dir" creates a directory, "-> x" a symbolic link
		want  []string          // names of providers, or error lines
		fails bool
	}{
		{name: "merged in lexical order", files: map[string]string{"b.yaml": named("b"), "a.yml": named("a"), "10.json": strings.Replace(testJSON, "ecr", "ten", 1), "9.yaml": named("nine"), ".dot.yaml": named("dot")},
			want: []string{"dot", "ten", "nine", "a", "b"}},
		{name: "mixed versions", files: map[string]string{"a.yaml": named("a"), "b.yaml": strings.Replace(named("b"), "io/v1\n", "io/v1alpha1\n", 1)}, want: []string{"a", "b"}},
		{name: "other files", files: map[string]string{"a.yaml": named("a"), "b.YAML": "x", "c.yaml.bak": "x", "yaml": "x", "d.conf": "x", "e.yaml": "dir"}, want: []string{"a"}},
		{name: "symbolic link to a file", files: map[string]string{"a.yaml": "-> b", "b": named("b")}, want: []string{"b"}},
		{name: "empty", files: nil, fails: true, want: []string{"DIR: the directory has no configuration files (.json, .yaml or .yml)"}},
		{name: "no suitable name", files: map[string]string{"config": testConfig}, fails: true, want: []string{"DIR: the directory has no configuration files (.json, .yaml or .yml); the kubelet ignores \"config\""}},
		{name: "the same name twice", files: map[string]string{"a.yaml": named("x"), "b.yaml": named("z") + strings.Replace(testProvider, "ecr", "x", 1)}, fails: true,
			want: []string{`b.yaml:8:9: providers[1].name: duplicate provider name (also at a.yaml:4:9); names must be unique across all files: "x"`}},
		{name: "all broken files at once", files: map[string]string{"a.yaml": "", "b.yaml": named("b"), "c.yaml": named("5")}, fails: true,
			want: []string{"a.yaml: is empty: add a CredentialProviderConfig of version kubelet.config.k8s.io/v1", `c.yaml:4:9: providers[0].name: is a number, but must be a string: quote it: "5"`}},
		{name: "symbolic link to a directory", files: map[string]string{"a.yaml": named("a"), "d": "dir", "b.yaml": "-> d"}, fails: true,
			want: []string{"b.yaml: is expected a regular file but found a directory; the kubelet does not read subdirectories and rejects symlinks to directories"}},
		{name: "unreadable entry", files: map[string]string{"a.yaml": named("a"), "b.yaml": "-> nowhere"}, fails: true,
			want: []string{"b.yaml: cannot be read: no such file or directory"}},
		{name: "loop of links", files: map[string]string{"a.yaml": "-> b.yaml", "b.yaml": "-> a.yaml"}, fails: true,
			want: []string{"a.yaml: cannot be read: too many levels of symbolic links", "b.yaml: cannot be read: too many levels of symbolic links"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "DIR")
			makeDir(t, dir, tt.files)
			c, err := Load(dir)
			var got []string
			if err == nil {
				for _, p := range c.Providers {
					got = append(got, p.Name)
				}
			} else {
				got = errorLines(t, dir, err)
				for i := range got {
					got[i] = strings.ReplaceAll(got[i], filepath.Dir(dir)+string(filepath.Separator), "")
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || tt.fails != (err != nil) {
				t.Errorf("error %v; (-want +got)\n%s", err, diff)
			}
		})
	}
}

// makeDir creates a directory with files, directories and symbolic links.
func makeDir(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the texts of errors, and symbolic links, are those of Unix")
	}
	err := os.Mkdir(dir, 0o700)
	for name, content := range files {
		path := filepath.Join(dir, name)
		target, link := strings.CutPrefix(content, "-> ")
		switch {
		case link:
			err = errors.Join(err, os.Symlink(target, path))
		case content == "dir":
			err = errors.Join(err, os.Mkdir(path, 0o700))
		default:
			err = errors.Join(err, os.WriteFile(path, []byte(content), 0o600))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestLoadPath(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the texts of errors are those of Unix")
	}
	dir := t.TempDir()
	makeDir(t, filepath.Join(dir, "d"), map[string]string{"dangling": "-> nowhere", "loop": "-> loop"})
	for path, want := range map[string]string{
		"":           "the configuration path is empty: set it to a file or directory",
		"missing":    "missing: cannot be found: no such file or directory",
		"d/dangling": "d/dangling: cannot be found: no such file or directory",
		"d/loop":     "d/loop: cannot be found: too many levels of symbolic links",
	} {
		full := path
		if path != "" {
			full = filepath.Join(dir, path)
		}
		_, err := Load(full)
		if diff := cmp.Diff([]string{want}, errorLines(t, dir, err)); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", path, diff)
		}
	}
	if _, err := Load("/dev/null"); err == nil || err.Error() != "/dev/null: is expected a regular file but found a device" {
		t.Errorf("/dev/null: %v", err)
	}
}

func TestLoadUnreadable(t *testing.T) {
	path := writeFile(t, "f", testConfig)
	must.Do(t, os.Chmod(path, 0))
	if _, err := os.ReadFile(path); !errors.Is(err, fs.ErrPermission) {
		t.Skip("this user (root?) or system reads files whatever their mode; unreadable entries are tested with links")
	}
	_, err := Load(path)
	if diff := cmp.Diff([]string{"f: cannot be read: permission denied"}, errorLines(t, filepath.Dir(path), err)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestHash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	makeDir(t, dir, map[string]string{"a.yaml": testConfig, "b.json": strings.Replace(testJSON, "ecr", "other", 1)})
	both := must.Get(Load(dir))(t)
	one := must.Get(Load(filepath.Join(dir, "a.yaml")))(t)
	// Computed with: { printf '%016x' LENGTH | xxd -r -p; cat FILE; }… | sha256sum
	got := []string{one.Hash(), both.Hash(), (&Config{}).Hash()}
	want := []string{
		"sha256:acb0bc05e835759aa528d8f77a45bac66b49961906b3a3fc19ad2035ec760f52",
		"sha256:b984835e2518ce95032802bfd6aeb2915f3d8d02e1fd9d3381e55a4aef15fbcc",
		"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestFindingPaths verifies the positions of findings about a valid configuration.
func TestFindingPaths(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	makeDir(t, dir, map[string]string{
		"a.yaml": testConfig,
	})
	content := testHeader + "providers:\n- name: b\n  matchImages: &m\n  - x.example\n  - \"*.example\"\n- <<: {matchImages: *m}\n  name: c\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "b.yaml"), []byte(content), 0o600))
	c := must.Get(Load(dir))(t)
	for _, tt := range []struct {
		provider int
		path     string
		want     string
	}{
		{0, "", "a.yaml:4:3 providers[0]"},
		{0, "matchImages[0]", "a.yaml:5:17 providers[0].matchImages[0]"},
		{0, "matchImages[7]", "a.yaml:5:16 providers[0].matchImages[7]"},
		{1, "matchImages[1]", "b.yaml:7:5 providers[0].matchImages[1]"},
		{1, "env[0].value", "b.yaml:4:3 providers[0].env[0].value"},
		{2, "matchImages[1]", "b.yaml:7:5 providers[1].matchImages[1]"},
		{2, "name", "b.yaml:9:9 providers[1].name"},
		{9, "name", "providers[9].name providers[9].name"},
	} {
		at := c.Position(tt.provider, tt.path)
		got := strings.TrimPrefix(at.String(), dir+"/") + " " + at.Path
		if got != tt.want {
			t.Errorf("Position(%d, %q) = %s, want %s", tt.provider, tt.path, got, tt.want)
		}
	}
}

func BenchmarkLoadValidate(b *testing.B) {
	var s strings.Builder
	s.WriteString(testHeader + "providers:\n")
	for i := range 1000 {
		fmt.Fprintf(&s, `- name: provider-%d
  matchImages:
  - "*.dkr.ecr.region-%d.amazonaws.com"
  - registry-%d.example.com/team
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get-credentials]
  env:
  - name: AWS_PROFILE
    value: profile
`, i, i, i)
	}
	path := writeFile(b, "config.yaml", s.String())
	b.ReportAllocs()
	for b.Loop() {
		c, err := Load(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestParseDirBounds verifies that ParseDir has the same limits as Load for a directory.
func TestParseDirBounds(t *testing.T) {
	many := map[string][]byte{}
	for i := range maxConfigFiles + 1 {
		many[fmt.Sprint(i)] = nil
	}
	for want, files := range map[string]map[string][]byte{
		"d: the directory has no configuration files (.json, .yaml or .yml)": nil,
		"d: the directory has more than 4096 configuration files":            many,
	} {
		if _, err := ParseDir("d", files); fmt.Sprint(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestValidateAppended verifies that a provider that a program appends is validated like the
// providers from the file.
func TestValidateAppended(t *testing.T) {
	c := must.Get(Parse("f", []byte(testConfig)))(t)
	c.Providers = append(c.Providers, c.Providers[0])
	if err := c.Validate(); err == nil {
		t.Error("two providers of one name are accepted")
	}
}
