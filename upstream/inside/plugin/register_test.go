// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

// setTokenGate sets the feature gate for service account tokens until the test ends.
func setTokenGate(t *testing.T, on bool) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.KubeletServiceAccountTokenForCredentialProviders, on)
}

// tokenAttributesYAML returns tokenAttributes in YAML. It omits empty arguments.
func tokenAttributesYAML(audience, cacheType, require, required, optional string) string {
	text := "  tokenAttributes:\n"
	for _, line := range [][2]string{
		{"serviceAccountTokenAudience", audience}, {"cacheType", cacheType}, {"requireServiceAccount", require},
		{"requiredServiceAccountAnnotationKeys", required}, {"optionalServiceAccountAnnotationKeys", optional},
	} {
		if line[1] != "" {
			text += "    " + line[0] + ": " + line[1] + "\n"
		}
	}
	return text
}

// configCase is a configuration that a kubelet accepts or rejects. It is a file, or a directory of
// files.
type configCase struct {
	covers  string // name of the kubelet's test case that it covers
	files   map[string]string
	gateOff bool
	refused string // text in regcred's error; "" if the configuration is accepted
}

func singleProviderFile(p provider) map[string]string { return map[string]string{"": configYAML(p)} }

// providerFileWith returns a configuration file with one provider, in which old is replaced with new.
func providerFileWith(p provider, old, new string) map[string]string {
	return map[string]string{"": strings.Replace(configYAML(p), old, new, 1)}
}

const (
	read     = "Test_readCredentialProviderConfig/"
	validate = "Test_validateCredentialProviderConfig/"
	jsonConfig   = `{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1","providers":[{"name":"p","matchImages":["registry.example"],"defaultCacheDuration":"1m","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}`
	v1       = "kubelet.config.k8s.io/v1"
)

var (
	providerWithEnv   = provider{extraYAML: "  args: [-a, b]\n  env: [{name: A, value: b}]\n"}
	providerWithToken = provider{extraYAML: tokenAttributesYAML("registry.example", "Token", "true", "[a.example/x, a.example/y]", "[a.example/z]")}
)

func configCases() []configCase {
	tokens := func(audience, cacheType, require, required, optional string) map[string]string {
		return singleProviderFile(provider{extraYAML: tokenAttributesYAML(audience, cacheType, require, required, optional)})
	}
	two := configYAML(provider{}, provider{name: "q", match: "[other.example]"})
	list := []configCase{
		{covers: read + "empty directory with no JSON or YAML files", files: map[string]string{}, refused: "no configuration files"},
		{covers: read + "directory with unsupported file extensions", files: map[string]string{"a.txt": "x", "b.md": "y"}, refused: "no configuration files"},
		{covers: read + "config with 1 plugin and 1 image matcher", files: providerFileWith(providerWithEnv, "[registry.example]", "[registry.example/app]")},
		{covers: read + "config with 1 plugin and 1 image matcher (JSON!)", files: map[string]string{"": jsonConfig}},
		{covers: read + "config with 1 plugin and a wildcard image match", files: singleProviderFile(provider{match: "['*.example']"})},
		{covers: read + "config with 1 plugin and multiple image matchers", files: singleProviderFile(provider{match: "['*.example', b.example/c]"})},
		{covers: read + "config with multiple providers", files: map[string]string{"": strings.ReplaceAll(two, "/v1\n", "/v1alpha1\n")}},
		{covers: read + "v1beta1 config with multiple providers", files: map[string]string{"": strings.ReplaceAll(two, "/v1\n", "/v1beta1\n")}},
		{covers: read + "v1 config with multiple providers", files: map[string]string{"": two}},
		{covers: read + "config with wrong Kind", files: providerFileWith(providerWithEnv, "kind: CredentialProviderConfig", "kind: Other"), refused: "kind"},
		{covers: read + "config with wrong apiversion", files: providerFileWith(providerWithEnv, v1, "other.example/v1"), refused: "apiVersion"},
		{covers: read + "config with invalid typo", files: singleProviderFile(provider{extraYAML: "  matchImage: x\n"}), refused: "matchImage"},
		{covers: read + "v1alpha1 config with token attributes should fail", files: providerFileWith(providerWithToken, v1, v1+"alpha1"), refused: "tokenAttributes"},
		{covers: read + "v1beta1 config with token attributes should fail", files: providerFileWith(providerWithToken, v1, v1+"beta1"), refused: "tokenAttributes"},
		{covers: read + "directory with multiple config files in lexicographic order", files: map[string]string{"b.yaml": configYAML(provider{}), "a.yaml": configYAML(provider{name: "q"})}},
		{covers: read + "directory with mixed API versions in config files", files: map[string]string{"a.yaml": strings.Replace(configYAML(provider{}), v1, v1+"beta1", 1), "b.yaml": configYAML(provider{name: "q"})}},
		{covers: read + "directory with duplicate provider names, throw error", files: map[string]string{"a.yaml": configYAML(provider{}), "b.yaml": configYAML(provider{})}, refused: "p"},
		{covers: read + "directory with mixed supported and unsupported file extensions", files: map[string]string{"a.yaml": configYAML(provider{name: "q"}), "b.txt": "x: [", "c.json": jsonConfig}},
		{covers: read + "directory with one invalid config file", files: map[string]string{"a.yaml": configYAML(provider{}), "b.yaml": strings.Replace(configYAML(provider{name: "q"}), "kind: C", "kind: D", 1)}, refused: "b.yaml"},

		{covers: validate + "no providers provided", files: map[string]string{"": "apiVersion: " + v1 + "\nkind: CredentialProviderConfig\n"}, refused: "providers"},
		{covers: validate + "no matchImages provided", files: singleProviderFile(provider{match: "[]"}), refused: "matchImages"},
		{covers: validate + "no default cache duration provided", files: providerFileWith(provider{}, "  defaultCacheDuration: 0s\n", ""), refused: "defaultCacheDuration"},
		{covers: validate + "name contains '/'", files: singleProviderFile(provider{name: "a/../p"}), refused: "name"},
		{covers: validate + "name is '.'", files: singleProviderFile(provider{name: "."}), refused: "name"},
		{covers: validate + "name is '..'", files: singleProviderFile(provider{name: ".."}), refused: "name"},
		{covers: validate + "name contains spaces", files: singleProviderFile(provider{name: "a p"}), refused: "name"},
		{covers: validate + "duplicate names", files: map[string]string{"": configYAML(provider{}, provider{match: "[other.example]"})}, refused: "name"},
		{covers: validate + "no apiVersion", files: providerFileWith(provider{}, "  apiVersion: credentialprovider.kubelet.k8s.io/v1\n", ""), refused: "apiVersion"},
		{covers: validate + "invalid apiVersion", files: singleProviderFile(provider{api: "v1alpha0"}), refused: "apiVersion"},
		{covers: validate + "negative default cache duration", files: singleProviderFile(provider{cache: "-1m"}), refused: "defaultCacheDuration"},
		{covers: validate + "invalid match image", files: singleProviderFile(provider{match: "['%x%']"}), refused: "matchImages"},
		{covers: validate + "valid config", files: singleProviderFile(provider{api: "v1alpha1", cache: "1m"})},
		{covers: validate + "token attributes set without KubeletServiceAccountTokenForCredentialProviders feature gate enabled", files: singleProviderFile(providerWithToken), gateOff: true, refused: "KubeletServiceAccountTokenForCredentialProviders"},
		{covers: validate + "token attributes not nil but empty ServiceAccountTokenAudience", files: tokens("", "Token", "true", "[a.example/x]", ""), refused: "serviceAccountTokenAudience"},
		{covers: validate + "token attributes not nil but empty CacheType", files: tokens("a", "", "true", "", ""), refused: "cacheType"},
		{covers: validate + "token attributes not nil, invalid CacheType", files: tokens("a", "Other", "true", "", ""), refused: "cacheType"},
		{covers: validate + "token attributes not nil but empty ServiceAccountTokenRequired", files: tokens("a", "ServiceAccount", "", "[a.example/x]", ""), refused: "requireServiceAccount"},
		{covers: validate + "required service account annotation keys not qualified name (same validation as metav1.ObjectMeta)", files: tokens("a", "Token", "true", "[ends-, a.example/x]", ""), refused: "requiredServiceAccountAnnotationKeys"},
		{covers: validate + "optional service account annotation keys not qualified name (same validation as metav1.ObjectMeta)", files: tokens("a", "ServiceAccount", "true", "", "[ends-, a.example/x]"), refused: "optionalServiceAccountAnnotationKeys"},
		{covers: validate + "duplicate required service account annotation keys", files: tokens("a", "Token", "true", "[a.example/x, a.example/x]", ""), refused: "requiredServiceAccountAnnotationKeys"},
		{covers: validate + "duplicate optional service account annotation keys", files: tokens("a", "ServiceAccount", "true", "", "[a.example/x, a.example/x]"), refused: "optionalServiceAccountAnnotationKeys"},
		{covers: validate + "annotation key in required and optional keys", files: tokens("a", "Token", "true", "[a.example/x, a.example/y]", "[a.example/y, a.example/z]"), refused: "a.example/y"},
		{covers: validate + "required annotation keys set when requireServiceAccount is false", files: tokens("a", "ServiceAccount", "false", "[a.example/x]", ""), refused: "equireServiceAccount"},
		{covers: validate + "valid config with KubeletServiceAccountTokenForCredentialProviders feature gate enabled", files: singleProviderFile(providerWithToken)},
		{covers: validate + "tokenAttributes set with credentialprovider.kubelet.k8s.io/v1alpha1 APIVersion", files: providerFileWith(providerWithToken, protocolGroup+"v1", protocolGroup+"v1alpha1"), refused: "tokenAttributes"},
		{covers: validate + "tokenAttributes set with credentialprovider.kubelet.k8s.io/v1beta1 APIVersion", files: providerFileWith(providerWithToken, protocolGroup+"v1", protocolGroup+"v1beta1"), refused: "tokenAttributes"},
	}
	return list
}

// writeConfig writes the files and returns the configuration's path.
func (c configCase) writeConfig(t *testing.T) (path string) {
	dir := filepath.Join(t.TempDir(), "config")
	if text, ok := c.files[""]; ok {
		writeFile(t, dir+".yaml", text, 0o600)
		return dir + ".yaml"
	}
	must.Do(t, os.Mkdir(dir, 0o700))
	for name, text := range c.files {
		writeFile(t, filepath.Join(dir, name), text, 0o600)
	}
	return dir
}

// TestRegister verifies that both packages accept or reject the same configurations, in the cases
// of the kubelet's tests.
func TestRegister(t *testing.T) {
	bin := newPluginDir(t, provider{}, provider{name: "q"}).dir
	for _, c := range configCases() {
		t.Run(c.covers, func(t *testing.T) {
			setTokenGate(t, !c.gateOff)
			path := c.writeConfig(t)
			for _, s := range implementations {
				if err := s.register(path, bin, kubelet.TokenFuncs{}); (err != nil) != (c.refused != "") {
					t.Errorf("%s: error %v, want one: %t", s.name, err, c.refused != "")
				} else if s.name == ours.name && err != nil && !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%s: error %v, want %q in it", s.name, err, c.refused)
				}
			}
		})
	}
}

// TestRegisterCorpus verifies that both packages accept or reject the same configurations of the
// corpus. All executables exist.
func TestRegisterCorpus(t *testing.T) {
	accepted, refused := 0, 0
	for _, c := range corpus.Configs() {
		dir := t.TempDir()
		path := must.Get(c.Write(filepath.Join(dir, "d")))(t)
		bin := binDirFor(t, path)
		errTheirs, errOurs := theirs.register(path, bin, kubelet.TokenFuncs{}), ours.register(path, bin, kubelet.TokenFuncs{})
		if errTheirs == nil {
			accepted++
		} else {
			refused++
		}
		if (errTheirs != nil) != (errOurs != nil) && !isKnownDifference(path, errOurs) {
			t.Errorf("%s: error %v, the kubelet's %v", c.Name, errOurs, errTheirs)
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	if accepted < 20 || refused < 100 {
		t.Error("the corpus no longer has both kinds")
	}
}

// binDirFor returns a directory with an executable for each provider that the kubelet reads from a
// configuration.
func binDirFor(t *testing.T, path string) string {
	dir := t.TempDir()
	c, _, err := kubelet.ReadConfig(path)
	if err != nil {
		return dir
	}
	for _, p := range c.Providers {
		if p.Name != "" && !strings.ContainsAny(p.Name, "/\\\x00") && p.Name != "." && p.Name != ".." && len(p.Name) < 200 {
			writeFile(t, filepath.Join(dir, p.Name), "#!/bin/sh\n", 0o700)
		}
	}
	return dir
}

// isKnownDifference reports whether regcred's error is an intended difference from the kubelet
// (docs/project/parity.md).
func isKnownDifference(path string, err error) bool {
	return err != nil && strings.Contains(fmt.Sprint(err), "__internal")
}

// TestRelativeBinDir verifies that executables are run from a relative directory, not from PATH.
func TestRelativeBinDir(t *testing.T) {
	at := newPluginDir(t, provider{})
	t.Chdir(at.dir)
	must.Do(t, ours.register(at.path, ".", kubelet.TokenFuncs{}))
	if n := countCredentials(); n != 1 {
		t.Errorf("%d credentials, want 1", n)
	}
}

// TestRegisterRefuses verifies that the error names what is missing, and that the registered
// providers stay registered.
func TestRegisterRefuses(t *testing.T) {
	at := newPluginDir(t, provider{})
	for _, s := range implementations {
		must.Do(t, s.register(at.path, at.dir, kubelet.TokenFuncs{}))
	}
	empty := t.TempDir()
	writeFile(t, filepath.Join(empty, "p"), "#!/bin/sh\n", 0o600) // not executable
	for _, tt := range []struct{ name, path, dir, want string }{
		{"no directory", at.path, filepath.Join(empty, "absent"), "plugin binary directory " + filepath.Join(empty, "absent") + " did not exist"},
		{"no path of one", at.path, "", "plugin binary directory  did not exist"},
		{"no configuration", filepath.Join(empty, "absent.yaml"), at.dir, "absent.yaml"},
		{"no path of one", "", at.dir, "no path is given"},
		{"no executable", at.path, t.TempDir(), `credential provider "p"`},
		{"one that is not executable", at.path, empty, "permission denied"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := ours.register(tt.path, tt.dir, kubelet.TokenFuncs{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
			if n := countCredentials(); n != 1 {
				t.Errorf("%d credentials, want 1 of the earlier registration", n)
			}
			if err := theirs.register(tt.path, tt.dir, kubelet.TokenFuncs{}); err == nil {
				t.Error("the kubelet accepts it")
			}
		})
	}
}
