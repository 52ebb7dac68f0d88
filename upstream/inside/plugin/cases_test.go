// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/inside/plugin"
)

// coveringTests maps tests of the kubelet to the tests of this package that cover them. It omits
// the tests that the two tables cover.
var coveringTests = map[string]string{
	"TestSingleflightProvide":                                      "TestConcurrentLookups",
	"Test_ProvideParallel/provide for registry 1":                  "TestConcurrentLookups",
	"Test_ProvideParallel/provide for registry 2":                  "TestConcurrentLookups",
	"Test_ProvideParallel/provide for registry 3":                  "TestConcurrentLookups",
	"Test_ProvideParallel/provide for registry 4":                  "TestConcurrentLookups",
	"TestExternalCredentialProviderKeyringLookupConcurrency":       "TestConcurrentKeyring",
	"TestExternalCredentialProviderKeyringLookupNoProviders":       "TestKubeletWithoutProviders",
	newKeyringTest + "no providers registered":                            "TestKubeletWithoutProviders",
	"TestRegisterCredentialProviderPlugin/successful registration": "TestLookup, in each case",
	"TestKubeletCredentialProviderPluginErrors":                    "TestMetrics",
	"TestKubeletCredentialProviderPluginDuration":                  "TestMetrics",
	"TestKubeletCredentialProviderConfigInfo":                      "TestMetrics",
	"TestMultiplePluginErrors":                                     "TestMetrics",
	"TestMultiplePluginDurations":                                  "TestMetrics",
	"TestCredentialProviderConfigInfoWithDifferentHashes":          "TestReload",
	environTest + "positive append system env vars":                    "TestEnvironment",
	environTest + "positive no env vars provided in plugin":            "TestEnvironment",
	environTest + "positive plugin provided vars takes priority":       "TestEnvironment",
}

const (
	environTest  = "Test_ExecPluginEnvVars/"
	purge    = "/It should delete expired credential during purge"
	kubernetesAccount = "TestGenerateServiceAccountCacheKey"
)

// withoutEquivalent maps tests of the kubelet that have no equivalent here to the reason.
var withoutEquivalent = map[string]string{
	"TestRegisterCredentialProviderPlugin/duplicate registration should panic": "of an unexported function; two providers of one name are refused with the configuration, and to register again replaces what was registered",
	"TestRequiredAnnotationNotFoundErr/other error":                            "of an unexported type of error; \"no account\" of TestLookup is such an error",
	cachedGroup + purge: "counts entries of the cache by a clock of its own after 18 minutes; that what has expired is not used is tested",
	cachedGroup + "_pluginUsingServiceAccount" + purge:                               "the same",
	environTest + "positive no system env vars but env vars are provided in plugin": "a test's process without any variables; what is merged is tested with some",
	environTest + "positive no system or plugin provided env vars":                  "the same",
	kubernetesAccount + "_Deterministic":                                                 "of an unexported function, whose keys nobody sees; upstream/parity compares 20,000 pairs of identities by whether one is served what the other was given",
	kubernetesAccount + "/no annotations":                                                "the same",
	kubernetesAccount + "/single annotation":                                             "the same",
	kubernetesAccount + "/multiple annotations":                                          "the same",
	kubernetesAccount + "/annotations with different order should be sorted":             "the same",
	kubernetesAccount + "/token hash included":                                           "the same",
	"TestGenerateCacheKey/empty service account cache key":                      "the same",
	"TestGenerateCacheKey/combined key":                                         "the same",
}

// TestKubeletWithoutProviders verifies a keyring if no providers are registered, as in a kubelet
// without the two flags. The kubelet's own package cannot be reset to that state, because its
// metrics must be registered first.
func TestKubeletWithoutProviders(t *testing.T) {
	plugin.ResetProviders()
	ring := ours.keyring("team", "web", "uid", "builder")
	if creds, ok := ring.Lookup("registry.example/app"); ok || creds == nil || len(creds) != 0 || lookupError(ring) != nil {
		t.Errorf("%d credentials, %t, %v; want none", len(creds), ok, lookupError(ring))
	}
}

// TestKubeletTests verifies that each test case of the kubelet's package has an equivalent here or
// is listed with a reason. The test fails if a newer release adds a test.
func TestKubeletTests(t *testing.T) {
	known := map[string]bool{}
	for _, c := range configCases() {
		known[c.covers] = true
	}
	for _, c := range lookupCases() {
		for _, name := range c.covers {
			known[name] = true
		}
	}
	for _, list := range []map[string]string{coveringTests, withoutEquivalent} {
		for name := range list {
			if known[name] {
				t.Errorf("%s is in two lists", name)
			}
			known[name] = true
		}
	}
	real := kubeletTests(t)
	if len(real) < 80 {
		t.Errorf("only %d cases were found in the kubelet's tests", len(real))
	}
	for _, name := range real {
		if !known[name] {
			t.Errorf("%s: nothing stands for it: add a case, or list it in without", name)
		}
	}
	for name := range known {
		if !slices.Contains(real, name) {
			t.Errorf("%s: the kubelet has no such test", name)
		}
	}
	t.Logf("%d cases: %d have no equivalent", len(real), len(withoutEquivalent))
}

// kubeletTests returns the names of the kubelet package's test functions or, for table
// tests, of their cases.
func kubeletTests(t *testing.T) (names []string) {
	out := must.Get(exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/kubernetes/pkg/credentialprovider/plugin").Output())(t)
	paths, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*_test.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no tests of the kubelet: %v", err)
	}
	for _, path := range paths {
		f := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names = append(names, tableCaseNames(fn)...)
			}
		}
	}
	return names
}

// tableCaseNames returns the names of a test's cases. A case has a field "name" in the test's table.
func tableCaseNames(fn *ast.FuncDecl) (names []string) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, isName := kv.Key.(*ast.Ident)
		value, isText := kv.Value.(*ast.BasicLit)
		// Skip providers: they also have a name in the table, without spaces.
		if isName && isText && key.Name == "name" && !strings.HasPrefix(value.Value, `"test-plugin`) {
			if text, err := strconv.Unquote(value.Value); err == nil {
				names = append(names, fn.Name.Name+"/"+text)
			}
		}
		return true
	})
	if names == nil {
		return []string{fn.Name.Name}
	}
	return names
}
