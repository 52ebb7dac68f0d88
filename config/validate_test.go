// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

const testTokens = `  tokenAttributes:
    serviceAccountTokenAudience: aud
    cacheType: Token
    requireServiceAccount: true
`

// loadTest loads a valid configuration. It fails the test if there is an error.
func loadTest(t testing.TB, content string) (c *Config, dir string) {
	t.Helper()
	path := writeFile(t, "f", content)
	c = must.Get(Load(path))(t)
	return c, filepath.Dir(path)
}

func TestValidate(t *testing.T) {
	const duration = `required: set the default cache duration for responses that do not specify one, for example "12h"; "0s" disables caching`
	const cacheTypes = "ServiceAccount, or Token if the plugin returns either the token or a credential that expires no later than the token"
	replace := func(old, new string) string {
		if !strings.Contains(testConfig+testTokens, old) {
			t.Fatalf("%q is not in the test configuration", old)
		}
		return strings.Replace(testConfig+testTokens, old, new, 1)
	}
	tests := []struct {
		name, content string
		want          []string
	}{
		{"valid", testConfig + testTokens, nil},
		{"two providers", testConfig + strings.Replace(testProvider, "ecr", "gcr", 1), nil},
		{"duration of zero", replace("12h", "0s"), nil},
		{"older protocol", strings.Replace(testConfig, "k8s.io/v1\n", "k8s.io/v1beta1\n", 2), nil},
		{"keys in upper case", replace("Account: true", "Account: true\n    optionalServiceAccountAnnotationKeys: [A.b/C, c]"), nil},
		{"service account not required", replace("Account: true", "Account: false"), nil},
		{"no providers", testHeader, []string{"f: providers: missing: at least one provider is required"}},
		{"name with a slash", replace("ecr", "bin/ecr"), []string{`f:4:9: providers[0].name: must be a file name in the kubelet's --image-credential-provider-bin-dir, without slashes: "bin/ecr"`}},
		{"name with a backslash", replace("ecr", `'bin\ecr'`), []string{`f:4:9: providers[0].name: must be a file name in the kubelet's --image-credential-provider-bin-dir, without slashes: "bin\\ecr"`}},
		{"name with a blank", replace("ecr", "my ecr"), []string{`f:4:9: providers[0].name: must not contain spaces: rename the plugin: "my…"`}},
		{"dot", replace("ecr", "."), []string{`f:4:9: providers[0].name: must be the file name of the plugin, not a directory: "."`}},
		{"two dots", replace("ecr", ".."), []string{`f:4:9: providers[0].name: must be the file name of the plugin, not a directory: ".."`}},
		{"empty name", replace("ecr", `""`), []string{"f:4:9: providers[0].name: missing: set the plugin's file name"}},
		{"unknown protocol", replace("credentialprovider.kubelet.k8s.io/v1", "v1"), []string{
			`f:7:15: providers[0].apiVersion: unknown protocol version: must be credentialprovider.kubelet.k8s.io/v1, credentialprovider.kubelet.k8s.io/v1beta1 or credentialprovider.kubelet.k8s.io/v1alpha1: "v1"`,
			"f:9:5: providers[0].tokenAttributes: requires the provider's apiVersion to be credentialprovider.kubelet.k8s.io/v1"}},
		{"no patterns", replace(`["*.example.com"]`, "[]"), []string{"f:5:16: providers[0].matchImages: missing: at least one pattern is required"}},
		{"bad patterns", replace(`["*.example.com"]`, `["a.b:c", ok, "a b"]`), []string{
			`f:5:17: providers[0].matchImages[0]: invalid pattern for the kubelet: the text after the first colon in the host is not a port: "a.b:c"`,
			`f:5:30: providers[0].matchImages[2]: invalid pattern for the kubelet: contains characters that are not allowed in an image name: "a…"`}},
		{"pattern of a template", replace(`["*.example.com"]`, `["{{ .Host }}"]`), []string{
			`f:5:17: providers[0].matchImages[0]: invalid pattern for the kubelet: an unrendered template ({{ … }}); render it first, for example with "helm template": "{{…"`}},
		{"negative duration", replace("12h", "-1s"), []string{`f:6:25: providers[0].defaultCacheDuration: must not be negative: "-1s"`}},
		{"nothing at all", testHeader + "providers:\n- {}\n", []string{
			"f:4:3: providers[0].name: missing: set the plugin's file name",
			"f:4:3: providers[0].apiVersion: missing: set the plugin's protocol version, for example credentialprovider.kubelet.k8s.io/v1",
			"f:4:3: providers[0].matchImages: missing: at least one pattern is required",
			"f:4:3: providers[0].defaultCacheDuration: " + duration}},
		{"no token attribute", testConfig + "  tokenAttributes: {}\n", []string{
			"f:8:20: providers[0].tokenAttributes.serviceAccountTokenAudience: missing: set the token audience",
			"f:8:20: providers[0].tokenAttributes.requireServiceAccount: missing: set it to true to call the plugin only for pods with a service account, or to false to call it for all pods",
			"f:8:20: providers[0].tokenAttributes.cacheType: missing: set " + cacheTypes}},
		{"unknown cacheType", replace("Token\n", "token\n"), []string{`f:10:16: providers[0].tokenAttributes.cacheType: must be ` + cacheTypes + `: "token"`}},
		{"required keys without a service account", replace("Account: true", "Account: false\n    requiredServiceAccountAnnotationKeys: [a]"), []string{
			"f:12:43: providers[0].tokenAttributes.requiredServiceAccountAnnotationKeys: must be empty if requireServiceAccount is false"}},
		{"bad keys", replace("Account: true", "Account: true\n    requiredServiceAccountAnnotationKeys: [a/b/c, x, x]\n    optionalServiceAccountAnnotationKeys: [-a, x]"), []string{
			`f:12:44: providers[0].tokenAttributes.requiredServiceAccountAnnotationKeys[0]: invalid annotation key: it must contain at most one slash: "a/b/c"`,
			`f:12:54: providers[0].tokenAttributes.requiredServiceAccountAnnotationKeys[2]: is listed twice: "x"`,
			`f:13:44: providers[0].tokenAttributes.optionalServiceAccountAnnotationKeys[0]: invalid annotation key: the name must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit: "-a"`,
			`f:13:48: providers[0].tokenAttributes.optionalServiceAccountAnnotationKeys[1]: cannot be both required and optional: remove it from one list: "x"`}},
		{"secret run into a name", testHeader + "providers:\n- name: 'ecr\n  env: " + canary.EnvSecret + "\n  '\n  matchImages: [a]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n", []string{
			`f:4:9: providers[0].name: must not contain spaces: rename the plugin: "ecr…"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, dir := loadTest(t, tt.content)
			if diff := cmp.Diff(tt.want, errorLines(t, dir, c.Validate())); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestValidateFor(t *testing.T) {
	const tokenGate, providerGate = "KubeletServiceAccountTokenForCredentialProviders", "KubeletCredentialProviders"
	const out = ": remove it from the kubelet's --feature-gates and featureGates"
	const where = " in the kubelet's --feature-gates or featureGates"
	alpha := strings.ReplaceAll(testConfig, "k8s.io/v1\n", "k8s.io/v1alpha1\n")
	beta := strings.ReplaceAll(testConfig, "k8s.io/v1\n", "k8s.io/v1beta1\n")
	tokens := testConfig + testTokens
	noCacheType := strings.Replace(tokens, "    cacheType: Token\n", "", 1)
	on := func(gate string) map[string]bool { return map[string]bool{gate: true} }
	off := func(gate string) map[string]bool { return map[string]bool{gate: false} }
	tests := []struct {
		name, content, version string
		gates                  map[string]bool
		want                   []string
	}{
		{"newest", tokens, "", nil, nil},
		{"newer than known", tokens, "1.99", nil, nil},
		{"with build data", tokens, "v1.36.3-eks-1+abc", nil, nil},
		{"unrelated gate", tokens, "1.36", on("SomethingElse"), nil},
		{"token gate off", tokens, "1.36", off(tokenGate), []string{"f:9:5: providers[0].tokenAttributes: kubelet 1.36 supports tokenAttributes only with the feature gate " + tokenGate}},
		{"all beta off", tokens, "1.36", off("AllBeta"), []string{"f:9:5: providers[0].tokenAttributes: kubelet 1.36 supports tokenAttributes only with the feature gate " + tokenGate}},
		{"all beta off, the gate on", tokens, "1.36", map[string]bool{"AllBeta": false, tokenGate: true}, nil},
		{"all beta off in 1.33", testConfig, "1.33", off("AllBeta"), nil},
		{"all alpha on in 1.33", noCacheType, "1.33", on("AllAlpha"), nil},
		{"all alpha on in 1.33, the gate off", noCacheType, "1.33", map[string]bool{"AllAlpha": true, tokenGate: false}, []string{"f:9:5: providers[0].tokenAttributes: kubelet 1.33 supports tokenAttributes only with the feature gate " + tokenGate}},
		{"all alpha on in 1.23", alpha, "1.23", on("AllAlpha"), nil},
		{"all beta off in 1.25", beta, "1.25", off("AllBeta"), []string{"f: kubelet 1.25 supports credential providers only with the feature gate " + providerGate}},
		{"all beta off in 1.26", testConfig, "1.26", off("AllBeta"), nil},
		{"tokens in 1.34", tokens, "1.34", nil, nil},
		{"cacheType in 1.33", tokens, "v1.33.4", on(tokenGate), []string{`f:10:16: providers[0].tokenAttributes.cacheType: kubelet 1.33 does not support cacheType (added in 1.34); remove it: "Token"`}},
		{"null cacheType in 1.33", strings.Replace(tokens, "cacheType: Token", "cacheType: null", 1), "1.33", on(tokenGate), []string{"f:10:16: providers[0].tokenAttributes.cacheType: kubelet 1.33 does not support cacheType (added in 1.34); remove it"}},
		{"null tokenAttributes in 1.32", testConfig + "  tokenAttributes: null\n", "1.32", nil, []string{"f:8:20: providers[0].tokenAttributes: kubelet 1.32 does not support tokenAttributes (added in 1.33)"}},
		{"null tokenAttributes in 1.33", testConfig + "  tokenAttributes: null\n", "1.33", nil, nil},
		{"no cacheType in 1.33", noCacheType, "1.33", on(tokenGate), nil},
		{"no cacheType in 1.34", noCacheType, "1.34.0", nil, []string{"f:9:5: providers[0].tokenAttributes.cacheType: missing: set ServiceAccount, or Token if the plugin returns either the token or a credential that expires no later than the token"}},
		{"tokens in 1.33 by default", noCacheType, "1.33", nil, []string{"f:9:5: providers[0].tokenAttributes: kubelet 1.33 supports tokenAttributes only with the feature gate " + tokenGate}},
		{"tokens in 1.32, whatever the gate", noCacheType, "1.32", on(tokenGate), []string{
			"f: kubelet 1.32 does not support the feature gate " + tokenGate + " (added in 1.33), and does not start if it is set" + out, "f:9:5: providers[0].tokenAttributes: kubelet 1.32 does not support tokenAttributes (added in 1.33)"}},
		{"v1 in 1.26", testConfig, "1.26", nil, nil},
		{"v1 in 1.25", testConfig, "1.25", nil, []string{
			`f:1:13: apiVersion: kubelet 1.25 does not support this version of the file (added in 1.26): use kubelet.config.k8s.io/v1beta1: "kubelet.config.k8s.io/v1"`,
			`f:7:15: providers[0].apiVersion: kubelet 1.25 does not support this version of the protocol (added in 1.26): use credentialprovider.kubelet.k8s.io/v1beta1: "credentialprovider.kubelet.k8s.io/v1"`}},
		{"v1beta1 in 1.24", beta, "1.24", nil, nil},
		{"v1beta1 in 1.24, gate off", beta, "1.24", off(providerGate), []string{"f: kubelet 1.24 supports credential providers only with the feature gate " + providerGate}},
		{"v1beta1 in 1.23", beta, "1.23", on(providerGate), []string{
			`f:1:13: apiVersion: kubelet 1.23 does not support this version of the file (added in 1.24): use kubelet.config.k8s.io/v1alpha1: "kubelet.config.k8s.io/v1beta1"`,
			`f:7:15: providers[0].apiVersion: kubelet 1.23 does not support this version of the protocol (added in 1.24): use credentialprovider.kubelet.k8s.io/v1alpha1: "credentialprovider.kubelet.k8s.io/v1beta1"`}},
		{"v1alpha1 in 1.20 with the gate", alpha, "1.20", on(providerGate), nil},
		{"v1alpha1 in 1.20 by default", alpha, "1.20", nil, []string{"f: kubelet 1.20 supports credential providers only with the feature gate " + providerGate}},
		{"1.19", alpha, "1.19", nil, []string{
			"f: kubelet 1.19 does not support credential providers (added in 1.20)",
			`f:7:15: providers[0].apiVersion: kubelet 1.19 does not support this version of the protocol (added in 1.20): "credentialprovider.kubelet.k8s.io/v1alpha1"`}},
		{"v1alpha1 in 1.36", alpha, "1.36", nil, nil},
		{"a gate that is gone", testConfig, "1.36", on(providerGate), []string{
			"f: kubelet 1.36 does not support the feature gate " + providerGate + " (removed in 1.28), and does not start if it is set" + out}},
		{"a gate that is locked", testConfig, "1.26", off(providerGate), []string{
			"f: kubelet 1.26 does not start with feature gate " + providerGate + "=false, because the gate has been locked since 1.26" + out}},
		{"a gate of another case", testConfig, "", map[string]bool{strings.ToLower(tokenGate): true, "allBeta": false, "allbets": true}, []string{
			"f: the kubelet does not recognize the feature gate allBeta and does not start: spell it AllBeta" + where,
			"f: the kubelet does not recognize the feature gate " + strings.ToLower(tokenGate) + " and does not start: spell it " + tokenGate + where}},
		{"a gate that is locked, as it is", testConfig, "1.26", on(providerGate), nil},
		{"more than one colon in 1.35", strings.Replace(testConfig, `"*.example.com"`, "a.b:80:80, '::1'", 1), "1.35", nil, nil},
		{"more than one colon in 1.36", strings.Replace(testConfig, `"*.example.com"`, "a.b:80:80", 1), "1.36", nil, []string{
			`f:5:17: providers[0].matchImages[0]: kubelet 1.36 rejects a host with more than one colon (new in 1.36; in kubelets up to 1.35, the pattern is accepted but matches no image): ` +
				`list each host separately, and put an IPv6 address in brackets, followed by the port: "a.b:80:80"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, dir := loadTest(t, tt.content)
			err := c.ValidateFor(Target{KubeletVersion: tt.version, FeatureGates: tt.gates})
			if diff := cmp.Diff(tt.want, errorLines(t, dir, err)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestValidateForBadVersion(t *testing.T) {
	c, _ := loadTest(t, testConfig)
	for _, version := range []string{"2.1", "1", "v1.x", "one", "1.33.", "1.9999", " 1.33", "1.33.4.5"} {
		if err := c.ValidateFor(Target{KubeletVersion: version}); err == nil || !strings.Contains(err.Error(), "invalid kubelet version") {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestValidateForDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	makeDir(t, dir, map[string]string{"a.yaml": testConfig})
	c := must.Get(Load(dir))(t)
	for version, want := range map[string][]string{
		"1.34": nil,
		"1.33": {"d: kubelet 1.33 does not support a configuration directory (added in 1.34); use a single file"},
	} {
		got := errorLines(t, filepath.Dir(dir), c.ValidateFor(Target{KubeletVersion: version}))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", version, diff)
		}
	}
}

// TestValidateWithoutFile verifies the errors for a Config that has no file and no positions.
func TestValidateWithoutFile(t *testing.T) {
	p := Provider{Name: "a", MatchImages: []string{"a.example", "a:b"}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1}
	c := &Config{Providers: []Provider{p, p}}
	c.Providers[1].MatchImages = p.MatchImages[:1]
	want := []string{
		`providers[1].name: duplicate provider name (also at providers[0].name); names must be unique across all files: "a"`,
		`providers[0].matchImages[1]: invalid pattern for the kubelet: the text after the first colon in the host is not a port: "a:b"`,
	}
	if diff := cmp.Diff(want, errorLines(t, "", c.Validate())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The names are from the tests of IsQualifiedName in k8s.io/apimachinery/pkg/util/validation.
func TestQualifiedName(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	dotted := strings.Repeat("a.", 126) + "a" // 253 bytes
	accepted := []string{
		"a", "A", "1", "simple", "now-with-dashes", "1-starts-with-num", "1234", "a_b", "a.b", "a--b", "a..b", "Upper-Case",
		"simple/simple", "now-with-dashes/simple", "1.2.3.4/5678", "a.b.c/Upper_Case", "1-num.2-num/3-num", "a-b/c", "a/" + long(63),
		long(63), dotted + "/a", long(253) + "/a",
	}
	rejected := []string{
		"", "/", "a/", "/a", "a/b/c", "a//b", "-a", "a-", "_a", "a_", ".a", "a.", "a b", " a", "a ", "a\n", "é", "a,b", "a*b", "a\x00",
		"A/b", "a_b/c", "a..b/c", ".a/b", "a./b", "-a/b", "a-/b", "é/b", " /a", "a/-b", "a/b ", long(64), "a/" + long(64), dotted + "a/a", long(254) + "/a",
	}
	for _, s := range accepted {
		if msg := qualifiedNameProblem(s); msg != "" {
			t.Errorf("%q: %s", s, msg)
		}
	}
	for _, s := range rejected {
		if qualifiedNameProblem(s) == "" {
			t.Errorf("%q: accepted", s)
		}
	}
}

func TestValidateHidesUserInformation(t *testing.T) {
	c := &Config{Providers: []Provider{{
		Name: "p", MatchImages: []string{"user:" + canary.PasswordSecret + "/x@r.io:80:80", "r.io:80:80?" + canary.TokenSecret},
		DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1,
	}}}
	err := c.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	canary.AssertAbsent(t, "error", err.Error())
}
