// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

const (
	outOfTreeHeader       = "kind: RegistryCredentialConfig\napiVersion: v1alpha1\n"
	outOfTreeProviderText = `- name: ecr-creds
  imageMatchers: ["*.example.com"]
  extraArgs:
    region: us-west-2
`
	outOfTreeConfig = outOfTreeHeader + "providers:\n" + outOfTreeProviderText
)

// wantOutOfTreeProvider returns the provider that outOfTreeConfig is expected to contain.
func wantOutOfTreeProvider() Provider {
	return Provider{Name: "ecr-creds", MatchImages: []string{"*.example.com"}, APIVersion: plugin.OutOfTree,
		DefaultCacheDuration: new(time.Duration(0)), Env: []EnvVar{{"REGION", plugin.NewSecret("us-west-2")}}}
}

// TestOutOfTreeExample verifies the example in the out-of-tree proposal, after its two patterns
// have been quoted.
func TestOutOfTreeExample(t *testing.T) {
	c := must.Get(Load("testdata/predecessor.yaml"))(t)
	want := wantOutOfTreeProvider()
	want.MatchImages = []string{"*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn"}
	if diff := cmp.Diff([]Provider{want}, c.Providers); diff != "" {
		t.Errorf("providers (-want +got)\n%s", diff)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if p, err := match.Parse(want.MatchImages[0]); err != nil || !p.Match("012345678910.dkr.ecr.us-east-1.amazonaws.com/my-image") {
		t.Errorf("the pattern does not match: %v", err)
	}
}

// TestOutOfTreeExampleVerbatim verifies the error for the unchanged example in the proposal,
// which is not valid YAML.
func TestOutOfTreeExampleVerbatim(t *testing.T) {
	_, err := Load("testdata/predecessor-unquoted.yaml")
	const hint = ": not valid YAML: a value that begins with * must be quoted; otherwise YAML parses the value as an alias"
	want := []string{"predecessor-unquoted.yaml:7:5" + hint, "predecessor-unquoted.yaml:8:5" + hint}
	if diff := cmp.Diff(want, errorLines(t, filepath.FromSlash("testdata"), writeSlashedPaths(err))); diff != "" {
		t.Errorf("errors (-want +got)\n%s", diff)
	}
}

// writeSlashedPaths replaces path separators in errors by slashes.
func writeSlashedPaths(err error) error {
	for _, e := range flattenErrors(err) {
		if fe, ok := e.(*FieldError); ok {
			fe.File = filepath.FromSlash(fe.File)
		}
	}
	return err
}

// TestOutOfTreeAccepts verifies that all spellings of one provider are loaded as the same
// provider.
func TestOutOfTreeAccepts(t *testing.T) {
	list := "  - name: region\n    value: us-west-2\n"
	inList := strings.Replace(outOfTreeConfig, "    region: us-west-2\n", list, 1)
	for name, content := range map[string]string{
		"the document's kind":      outOfTreeConfig,
		"the example's kind":       strings.Replace(outOfTreeConfig, kindOutOfTree, "credentialprovider", 1),
		"list":                     inList,
		"type of the provider":     outOfTreeConfig + "  kind: RegistryCredentialProvider\n  apiVersion: v1alpha1\n",
		"the example's type":       outOfTreeConfig + "  kind: credentialprovider\n",
		"empty type":               outOfTreeConfig + "  kind: \"\"\n  apiVersion: null\n",
		"upper case":               strings.Replace(outOfTreeConfig, "region:", "REGION:", 1),
		"mixed case in a list":     strings.Replace(inList, "region", "rEGion", 1),
		"JSON":                     `{"kind":"RegistryCredentialConfig","apiVersion":"v1alpha1","providers":[{"name":"ecr-creds","imageMatchers":["*.example.com"],"extraArgs":{"region":"us-west-2"}}]}`,
		"JSON, list":               `{"kind":"RegistryCredentialConfig","apiVersion":"v1alpha1","providers":[{"name":"ecr-creds","imageMatchers":["*.example.com"],"extraArgs": [ {"name":"region","value":"us-west-2"}]}]}`,
		"merge":                    outOfTreeHeader + "providers:\n- <<: {name: ecr-creds}\n  imageMatchers: [\"*.example.com\"]\n  extraArgs: {<<: {region: us-west-2}}\n",
		"second document, BOM":     "\ufeff" + outOfTreeConfig + "---\nkind: Other\n",
		"CRLF":                     strings.ReplaceAll(outOfTreeConfig, "\n", "\r\n"),
		"an alias that is one":     strings.Replace(outOfTreeConfig, "- name", "- &x\n  name", 1),
		"patterns through aliases": outOfTreeHeader + "providers:\n- name: &n ecr-creds\n  imageMatchers: [&p \"*.example.com\"]\n  extraArgs: {region: us-west-2}\n",
	} {
		c, err := Load(writeFile(t, "f", content))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff([]Provider{wantOutOfTreeProvider()}, c.Providers); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: validate: %v", name, err)
		}
	}
}

func TestOutOfTreeEnv(t *testing.T) {
	for args, want := range map[string][]EnvVar{
		"null":                         nil,
		"[]":                           nil,
		"{}":                           nil,
		"{b: \"1\", a: null, C: \"\"}": {{"C", plugin.Secret{}}, {"A", plugin.Secret{}}, {"B", plugin.NewSecret("1")}},
		"[{name: b, value: x}, {value: z, name: a}]": {{"B", plugin.NewSecret("x")}, {"A", plugin.NewSecret("z")}},
		"{dry-run: \"true\", a.b_c9: x}":             {{"A.B_C9", plugin.NewSecret("x")}, {"DRY-RUN", plugin.NewSecret("true")}},
	} {
		c, err := Load(writeFile(t, "f", outOfTreeHeader+"providers:\n- {name: a, imageMatchers: [a.example], extraArgs: "+args+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		got := []string{}
		for _, v := range c.Providers[0].Env {
			got = append(got, v.Name+"="+v.Value.Reveal())
		}
		wanted := []string{}
		for _, v := range want {
			wanted = append(wanted, v.Name+"="+v.Value.Reveal())
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", args, diff)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: validate: %v", args, err)
		}
	}
}

func TestOutOfTreeRejects(t *testing.T) {
	const (
		asterisk = "not valid YAML: a value that begins with * must be quoted; otherwise YAML parses the value as an alias"
		isList   = "has an unknown field: each list item must have a name and a value; to write a mapping of names to values, omit the dashes"
		words    = " (YAML parses yes, no, on and off as booleans)"
	)
	replace := func(old, new string) string {
		if !strings.Contains(outOfTreeConfig, old) {
			t.Fatalf("%q is not in the test configuration", old)
		}
		return strings.Replace(outOfTreeConfig, old, new, 1)
	}
	args := func(args string) string { return replace("\n    region: us-west-2", " "+args) }
	tests := []struct {
		name, content string
		want          []string
	}{
		{"no apiVersion", replace("apiVersion: v1alpha1\n", ""), []string{"f:1:1: apiVersion: missing: set it to v1alpha1"}},
		{"version of a kubelet's file", replace("v1alpha1", "kubelet.config.k8s.io/v1"), []string{`f:2:13: apiVersion: not a version of RegistryCredentialConfig: must be v1alpha1 (the kubelet needs kind CredentialProviderConfig): "kubelet.config.k8s.io/v1"`}},
		{"another version", strings.Replace(replace("v1alpha1", "v1"), kindOutOfTree, "credentialprovider", 1), []string{`f:2:13: apiVersion: not a version of credentialprovider: must be v1alpha1 (the kubelet needs kind CredentialProviderConfig): "v1"`}},
		{"kind of a provider", replace("RegistryCredentialConfig", "RegistryCredentialProvider"), []string{`f:1:7: kind: this kind is for a provider, not for the file: use RegistryCredentialConfig here: "RegistryCredentialProvider"`}},
		{"kind in another case", replace("RegistryCredentialConfig", "registrycredentialconfig"), []string{`f:1:7: kind: did you mean RegistryCredentialConfig? (case matters): "registrycredentialconfig"`}},
		{"field kind in another case", replace("kind:", "Kind:"), []string{"f:1:1: Kind: unknown field: did you mean kind? (case matters)"}},
		{"version of today's kind", replace("RegistryCredentialConfig", "CredentialProviderConfig"), []string{
			`f:2:13: apiVersion: not supported: must be kubelet.config.k8s.io/v1, kubelet.config.k8s.io/v1beta1 or kubelet.config.k8s.io/v1alpha1: "v1alpha1"`,
			"f:4:3: providers[0].apiVersion: missing: set the plugin's protocol version, for example credentialprovider.kubelet.k8s.io/v1", `f:4:3: providers[0].defaultCacheDuration: required: set the default cache duration for responses that do not specify one, for example "12h"; "0s" disables caching`,
			"f:5:3: providers[0].imageMatchers: unknown field: matchImages was called imageMatchers in the out-of-tree proposal",
			"f:6:3: providers[0].extraArgs: unknown field: this field exists only in the out-of-tree proposal: use args or env"}},
		{"today's fields", replace("imageMatchers", "matchImages") + "  args: []\n  env: []\n  defaultCacheDuration: 1h\n  tokenAttributes: {}\n", []string{
			"f:5:3: providers[0].matchImages: unknown field: use imageMatchers in this kind of file",
			"f:8:3: providers[0].args: unknown field: this kind of file uses extraArgs to set environment variables",
			"f:9:3: providers[0].env: unknown field: this kind of file uses extraArgs to set environment variables",
			"f:10:3: providers[0].defaultCacheDuration: unknown field: not supported in this kind of file, because responses are cached until their expirationTimestamp",
			"f:11:3: providers[0].tokenAttributes: unknown field: supported only in kind CredentialProviderConfig"}},
		{"type of a provider", outOfTreeConfig + "  kind: Pod\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n", []string{
			`f:8:9: providers[0].kind: must be RegistryCredentialProvider or credentialprovider or be omitted: "Pod"`,
			`f:9:15: providers[0].apiVersion: must be v1alpha1 or be omitted: "credentialprovider.kubelet.k8s.io/v1"`}},
		{"kind of another provider", outOfTreeConfig + "  kind: RegistryCredentialConfig\n  apiVersion: v1alpha1\n", []string{
			`f:8:9: providers[0].kind: must be RegistryCredentialProvider or credentialprovider or be omitted: "RegistryCredentialConfig"`}},
		{"type of a provider, in another case", outOfTreeConfig + "  Kind: Pod\n", []string{"f:8:3: providers[0].Kind: unknown field: did you mean kind? (case matters)"}},
		{"misspelt", replace("imageMatchers", "imagematchers") + "  extraArg: {}\nmetadata: {}\n", []string{
			"f:5:3: providers[0].imagematchers: unknown field: did you mean imageMatchers? (case matters)",
			"f:8:3: providers[0].extraArg: unknown field: did you mean extraArgs?",
			"f:9:1: metadata: unknown field; the known fields are apiVersion, kind and providers"}},
		{"wrong types", outOfTreeHeader + "providers:\n- {name: 1, imageMatchers: a.example, extraArgs: region}\n- {imageMatchers: [1, yes]}\n", []string{
			`f:4:10: providers[0].name: is a number, but must be a string: quote it: "1"`,
			`f:4:28: providers[0].imageMatchers: is a string, but must be a list: put a dash before each item: "a.example"`,
			"f:4:50: providers[0].extraArgs: is a string, but must be a list of items with name and value, or a mapping of names to values",
			`f:5:20: providers[1].imageMatchers[0]: is a number, but must be a string: quote it: "1"`,
			`f:5:23: providers[1].imageMatchers[1]: is a boolean, but must be a string: quote it` + words + `: "true"`}},
		{"set twice", replace("    region", "    region: "+canary.EnvSecret+"\n    region") + "  name: x\n", []string{
			"f:8:5: providers[0].extraArgs.region: a field is set twice: remove one of them",
			"f:9:3: providers[0].name: a field is set twice: remove one of them"}},
		{"set twice in JSON", `{"kind":"credentialprovider","apiVersion":"v1alpha1","providers":[{"name":"a","extraArgs":{"a":"` + canary.EnvSecret + `","a":"` + canary.EnvSecret + `"}}]}`, []string{
			"f:1:114: providers[0].extraArgs.a: a field is set twice: remove one of them"}},
		{"set twice in a list in JSON", `{"kind":"credentialprovider","apiVersion":"v1alpha1","providers":[{"name":"a","extraArgs":[{"name":"a","name":"b"}]}]}`, []string{
			"f:1:104: providers[0].extraArgs[0].name: a field is set twice: remove one of them"}},
		{"values that are no text", args("{a: 1, b: yes, c: [" + canary.EnvSecret + "], d: {" + canary.EnvSecret + ": x}, e: 1.5, f: null}"), []string{
			"f:6:18: providers[0].extraArgs.a: is a number, but must be a string: quote it",
			"f:6:24: providers[0].extraArgs.b: is a boolean, but must be a string: quote it" + words,
			"f:6:32: providers[0].extraArgs.c: is a list, but must be a string",
			"f:6:54: providers[0].extraArgs.d: is a mapping, but must be a string",
			"f:6:79: providers[0].extraArgs.e: is a number, but must be a string: quote it"}},
		{"values that are no text, in a list", args("[{name: region, value: 1}, {name: no, value: no}]"), []string{
			"f:6:37: providers[0].extraArgs[0].value: is a number, but must be a string: quote it",
			"f:6:48: providers[0].extraArgs[1].name: is a boolean, but must be a string: quote it" + words,
			"f:6:59: providers[0].extraArgs[1].value: is a boolean, but must be a string: quote it" + words}},
		{"both forms: a mapping in a list", args("[{region: " + canary.EnvSecret + "}, {name: a, value: b}, " + canary.EnvSecret + "]"), []string{
			"f:6:16: providers[0].extraArgs[0]: " + isList,
			"f:6:63: providers[0].extraArgs[2]: is a string, but must be a mapping with name and value"}},
		{"both forms: an item in a mapping", args("{region: us-west-2, other: {name: a, value: " + canary.EnvSecret + "}}"), []string{
			"f:6:41: providers[0].extraArgs.other: is a mapping, but must be a string"}},
		{"misspelt in a list", args("[{valeu: a, name: " + canary.EnvSecret + "}]"), []string{"f:6:16: providers[0].extraArgs[0].valeu: unknown field: did you mean value?"}},
		{"secret as a name", args("{" + canary.EnvSecret + ": 1, " + canary.ArgSecret + ": x, " + canary.ArgSecret + ": z}"), []string{
			"f:6:32: providers[0].extraArgs: is a number, but must be a string: quote it",
			"f:6:55: providers[0].extraArgs: a field is set twice: remove one of them"}},
		{"secret as a field, with fields set twice", outOfTreeConfig + "  " + canary.EnvSecret + ": {a: 1, a: 2}\n", []string{
			"f:8:3: providers[0]: has an unknown field; the known fields are apiVersion, extraArgs, imageMatchers, kind and name",
			"f:8:27: providers[0]: a field is set twice: remove one of them"}},
		{"duplicate provider", outOfTreeConfig + outOfTreeProviderText, []string{`f:8:9: providers[1].name: duplicate provider name (also at f:4:9); names must be unique across all files: "ecr-creds"`}},
		{"unquoted pattern", replace(`["*.example.com"]`, "\n  - a.example.com\n  - *.example.com"), []string{"f:7:5: " + asterisk}},
		{"unquoted pattern in a flow", replace(`["*.example.com"]`, "[a.example, *.example.com , \"*.quoted\",*]"), []string{"f:5:30: " + asterisk, "f:5:57: " + asterisk}},
		{"unquoted pattern on a line of its own", replace(`["*.example.com"]`, "[\n    # not this: *.example\n    \"x, *.example\", 'y, *.z',\n    *x.example.com\n  ]"), []string{"f:8:5: " + asterisk}},
		{"unquoted value", args("{a: *" + canary.EnvSecret + "}"), []string{"f:6:18: " + asterisk}},
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

// TestUnquotedPatternOfToday verifies that a CredentialProviderConfig gets the same hint to
// quote a pattern.
func TestUnquotedPatternOfToday(t *testing.T) {
	const hint = ": not valid YAML: a value that begins with * must be quoted; otherwise YAML parses the value as an alias"
	content := strings.Replace(testConfig, `["*.example.com"]`, "&all\n  - \"*.first.example\"\n  - *.example.com\n  - *\n  - *all\n  - x*y.example # *.z", 1)
	path := writeFile(t, "f", content)
	_, err := Load(path)
	if diff := cmp.Diff([]string{"f:7:5" + hint, "f:8:5" + hint}, errorLines(t, filepath.Dir(path), err)); diff != "" {
		t.Errorf("errors (-want +got)\n%s", diff)
	}
}

func TestOutOfTreeValidate(t *testing.T) {
	const no = "cannot be used as an environment variable name: "
	const boolean = "must be quoted, because YAML parses yes, no, on and off as booleans"
	provider := func(args string) string {
		return outOfTreeHeader + "providers:\n- name: a\n  imageMatchers: [a.example]\n  extraArgs: " + args + "\n"
	}
	tests := []struct {
		name, content string
		want          []string
	}{
		{"no providers", outOfTreeHeader + "providers: []\n", []string{"f: providers: missing: at least one provider is required"}},
		{"nothing at all", outOfTreeHeader + "providers: [{}]\n", []string{
			"f:3:13: providers[0].name: missing: set the plugin's file name",
			"f:3:13: providers[0].imageMatchers: missing: at least one pattern is required"}},
		{"null", outOfTreeHeader + "providers: [null]\n", []string{
			"f:3:13: providers[0].name: missing: set the plugin's file name",
			"f:3:13: providers[0].imageMatchers: missing: at least one pattern is required"}},
		{"names", outOfTreeHeader + "providers:\n- {name: a/b, imageMatchers: [a.example]}\n- {name: \"..\", imageMatchers: [a.example]}\n", []string{
			`f:4:10: providers[0].name: must be a file name in the kubelet's --image-credential-provider-bin-dir, without slashes: "a/b"`,
			`f:5:10: providers[1].name: must be the file name of the plugin, not a directory: ".."`}},
		{"patterns", outOfTreeHeader + "providers:\n- {name: a, imageMatchers: [a.example, \"b.example:port\", \"user:" + canary.ArgSecret + "@[x\"]}\n", []string{
			`f:4:40: providers[0].imageMatchers[1]: invalid pattern for regcred: the text after the first colon in the host is not a port: "b.example:port"`,
			`f:4:58: providers[0].imageMatchers[2]: invalid pattern for regcred: missing ] after the IPv6 address: "…@[x"`}},
		{"names of variables", provider("{\"\": x, \"a=" + canary.EnvSecret + "\": x, \"a\\0b\": x, \"a b\": x, 1a: x, \"a$\": x, ſ: x, ok-1.a_: x}"), []string{
			"f:6:15: providers[0].extraArgs: " + no + "it is empty",
			"f:6:22: providers[0].extraArgs: " + no + "it contains =; move the text after the = to the value",
			"f:6:46: providers[0].extraArgs: " + no + "it contains a NUL",
			"f:6:57: providers[0].extraArgs: " + no + "it contains white space",
			"f:6:67: providers[0].extraArgs.1a: " + no + "it begins with a digit",
			"f:6:74: providers[0].extraArgs: " + no + `it can contain only letters, digits, "_", "-" and "."`,
			"f:6:83: providers[0].extraArgs: " + no + `it can contain only letters, digits, "_", "-" and "."`}},
		{"names of variables in a list", provider("[{value: x}, {name: \"a=" + canary.EnvSecret + "\"}, null, {name: ok}]"), []string{
			"f:6:15: providers[0].extraArgs[0].name: " + no + "it is empty",
			"f:6:34: providers[0].extraArgs[1].name: " + no + "it contains =; move the text after the = to the value",
			"f:6:56: providers[0].extraArgs[2].name: " + no + "it is empty"}},
		{"names that are booleans", provider("{no: x, on: z, \"off\": x}"), []string{
			"f:6:14: providers[0].extraArgs.false: " + boolean,
			"f:6:14: providers[0].extraArgs.true: " + boolean}},
		{"names that are text", provider("{false: x, \"true\": x, \"yes\": x}"), nil},
		{"duplicates", provider("{region: " + canary.EnvSecret + ", REGION: x, other: z}"), []string{
			"f:6:15: providers[0].extraArgs.region: sets the same variable as f:6:40, because names are converted to upper case: remove one of them"}},
		{"duplicates in a list", provider("[{name: a, value: " + canary.EnvSecret + "}, {name: A}, {name: a}]"), []string{
			"f:6:57: providers[0].extraArgs[1].name: sets the same variable as f:6:22, because names are converted to upper case: remove one of them",
			"f:6:68: providers[0].extraArgs[2].name: sets the same variable as f:6:22, because names are converted to upper case: remove one of them"}},
		{"one item without its dash", provider("{name: region, value: " + canary.EnvSecret + "}"), []string{
			"f:6:14: providers[0].extraArgs: looks like a list item: put a dash before the first field"}},
		{"NUL in a value", provider("[{name: a, value: \"a\\0b\"}]") + "- {name: b, imageMatchers: [b.example], extraArgs: {a: \"\\0\"}}\n", []string{
			"f:6:32: providers[0].extraArgs[0].value: contains a NUL byte, which is not allowed in an environment variable",
			"f:7:56: providers[1].extraArgs.a: contains a NUL byte, which is not allowed in an environment variable"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := writeFile(t, "f", tt.content)
			c := must.Get(Load(path))(t)
			if diff := cmp.Diff(tt.want, errorLinesWithoutDirs(t, path, c.Validate())); diff != "" {
				t.Errorf("errors (-want +got)\n%s", diff)
			}
		})
	}
}

// errorLinesWithoutDirs is like errorLines. In addition, it removes directories from file names in the
// messages.
func errorLinesWithoutDirs(t *testing.T, path string, err error) []string {
	t.Helper()
	lines := errorLines(t, filepath.Dir(path), err)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], filepath.Dir(path)+string(filepath.Separator), "")
	}
	return lines
}

// mixedConfigDir creates a directory with a CredentialProviderConfig between two files of the
// out-of-tree proposal.
func mixedConfigDir(t *testing.T) (string, *Config) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"10-old.yaml": outOfTreeConfig + "- {name: second, imageMatchers: [b.example]}\n",
		"20-new.yaml": testConfig,
		"30-old.json": `{"kind":"credentialprovider","apiVersion":"v1alpha1","providers":[{"name":"third","imageMatchers":["c.example"]}]}`,
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	c := must.Get(Load(dir))(t)
	return dir, c
}

func TestOutOfTreeInADirectory(t *testing.T) {
	dir, c := mixedConfigDir(t)
	var got []string
	for _, p := range c.Providers {
		got = append(got, p.Name+" "+p.APIVersion)
	}
	want := []string{"ecr-creds v1alpha1", "second v1alpha1", "ecr " + plugin.V1, "third v1alpha1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("providers (-want +got)\n%s", diff)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	kinds := []string{
		`10-old.yaml:1:7: kind: kubelets do not support this kind; run regcred convert: "RegistryCredentialConfig"`,
		`30-old.json:1:9: kind: kubelets do not support this kind; run regcred convert: "credentialprovider"`,
	}
	for _, version := range []string{NewestKubelet, "1.34", "v1.99.0"} {
		if diff := cmp.Diff(kinds, errorLines(t, dir, c.ValidateFor(Target{KubeletVersion: version}))); diff != "" {
			t.Errorf("kubelet %s (-want +got)\n%s", version, diff)
		}
	}
	if err := c.ValidateFor(Target{FeatureGates: map[string]bool{gateServiceAccountTokens: false}}); err != nil {
		t.Errorf("with a feature gate alone: %v", err)
	}

	twice := filepath.Join(dir, "40-new.yaml")
	must.Do(t, os.WriteFile(twice, []byte(strings.Replace(testConfig, "ecr", "third", 1)), 0o600))
	_, err := Load(dir)
	want = []string{fmt.Sprintf(`40-new.yaml:4:9: providers[0].name: duplicate provider name (also at %s:1:75); names must be unique across all files: "third"`, "30-old.json")}
	if diff := cmp.Diff(want, errorLinesWithoutDirs(t, twice, err)); diff != "" {
		t.Errorf("the same name twice (-want +got)\n%s", diff)
	}
}

func TestFiles(t *testing.T) {
	dir, c := mixedConfigDir(t)
	var got []File
	for _, f := range c.Files() {
		data, err := os.ReadFile(f.Name)
		if err != nil || string(data) != string(f.Data()) {
			t.Errorf("%s: other data than in the file; %v", f.Name, err)
		}
		got = append(got, File{Name: filepath.Base(f.Name), Kind: f.Kind, APIVersion: f.APIVersion, First: f.First, Count: f.Count})
	}
	want := []File{
		{Name: "10-old.yaml", Kind: "RegistryCredentialConfig", APIVersion: "v1alpha1", First: 0, Count: 2},
		{Name: "20-new.yaml", Kind: "CredentialProviderConfig", APIVersion: V1, First: 2, Count: 1},
		{Name: "30-old.json", Kind: "credentialprovider", APIVersion: "v1alpha1", First: 3, Count: 1},
	}
	if !slices.EqualFunc(want, got, func(a, b File) bool {
		return a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion && a.First == b.First && a.Count == b.Count
	}) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	one := must.Get(Load(filepath.Join(dir, "20-new.yaml")))(t)
	if fs := one.Files(); len(fs) != 1 || fs[0].Name != filepath.Join(dir, "20-new.yaml") || fs[0].First != 0 {
		t.Errorf("of one file: %v", fs)
	}
	if fs := (&Config{}).Files(); len(fs) != 0 {
		t.Errorf("of none: %v", fs)
	}
}

// TestOutOfTreeByHand verifies that the providers in a Config without files are validated for
// their protocol.
func TestOutOfTreeByHand(t *testing.T) {
	c := &Config{Providers: []Provider{wantOutOfTreeProvider(), Provider{Name: "new", MatchImages: []string{"a.example"}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1}}}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.Providers[0].Env = append(c.Providers[0].Env, EnvVar{"REGION", plugin.Secret{}})
	c.Providers[0].TokenAttributes = &TokenAttributes{ServiceAccountTokenAudience: "a", CacheType: CachePerToken, RequireServiceAccount: new(true)}
	want := []string{
		"providers[0].env[1].name: sets the same variable as providers[0].env[0].name, because names are converted to upper case: remove one of them",
		"providers[0].tokenAttributes: requires the provider's apiVersion to be credentialprovider.kubelet.k8s.io/v1",
	}
	if diff := cmp.Diff(want, errorLines(t, "none", c.Validate())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	want = []string{
		`providers[0].apiVersion: unknown protocol version: must be credentialprovider.kubelet.k8s.io/v1, credentialprovider.kubelet.k8s.io/v1beta1 or credentialprovider.kubelet.k8s.io/v1alpha1: "v1alpha1"`,
	}
	c.Providers[0].TokenAttributes = nil
	if diff := cmp.Diff(want, errorLines(t, "none", c.ValidateFor(Target{KubeletVersion: "1.36"}))); diff != "" {
		t.Errorf("for a kubelet (-want +got)\n%s", diff)
	}
}

// TestOutOfTreeVersionInTodaysFile verifies that a CredentialProviderConfig is rejected if it
// contains the version of the out-of-tree protocol.
func TestOutOfTreeVersionInTodaysFile(t *testing.T) {
	path := writeFile(t, "f", strings.Replace(testConfig, plugin.V1, plugin.OutOfTree, 1))
	c := must.Get(Load(path))(t)
	want := []string{`f:7:15: providers[0].apiVersion: unknown protocol version: must be credentialprovider.kubelet.k8s.io/v1, credentialprovider.kubelet.k8s.io/v1beta1 or credentialprovider.kubelet.k8s.io/v1alpha1: "v1alpha1"`}
	if diff := cmp.Diff(want, errorLines(t, filepath.Dir(path), c.Validate())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestOutOfTreeManyProblems verifies that the positions of problems above the limit are not
// determined. In a large file, that would take minutes.
func TestOutOfTreeManyProblems(t *testing.T) {
	const n = 4 * maxFieldErrors
	allocs := func(args string, check func(*Config, *sourceFile)) float64 {
		content := outOfTreeHeader + "providers:\n- name: a\n  imageMatchers: [a.example]\n  extraArgs:\n" + args
		c, _ := Load(writeFile(t, "f", content))
		s := newSourceFile("f", []byte(content))
		s.root()
		s.lines()
		return testing.AllocsPerRun(1, func() { check(c, s) })
	}
	for name, tt := range map[string]struct {
		arg   string
		check func(*Config, *sourceFile)
	}{
		"the same variable": {"  - {name: a}\n", func(c *Config, _ *sourceFile) {
			if got := len(flattenErrors(c.Validate())); got != maxFieldErrors+1 {
				t.Errorf("%d errors, want %d", got, maxFieldErrors+1)
			}
		}},
		"the same field": {"    a: b\n", func(_ *Config, s *sourceFile) {
			d := &diagnosis{src: s}
			if d.findDuplicates(s.root(), newShape(reflect.TypeFor[wireConfig[outOfTreeProvider]]()), nil); len(d.errors.errs) != maxFieldErrors+1 {
				t.Errorf("%d errors, want %d", len(d.errors.errs), maxFieldErrors+1)
			}
		}},
	} {
		few, many := allocs(strings.Repeat(tt.arg, n), tt.check), allocs(strings.Repeat(tt.arg, 2*n), tt.check)
		if many > few+n/2 { // determining a position costs more than one allocation
			t.Errorf("%s: %d times cost %v allocations, %d times %v", name, n, few, 2*n, many)
		}
	}
}
