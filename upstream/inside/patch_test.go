// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inside

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/isolated"
	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/release"
)

// maxChangedLines is the maximum number of lines of Kubernetes that may be changed.
const maxChangedLines = 10

// readImageManager returns a release's image_manager.go. It downloads releases other than the one
// pinned in go.mod only if REGCRED_TEST_REQUIRE contains "inside".
func readImageManager(t *testing.T, version string) []byte {
	t.Helper()
	cache := must.Get(exec.Command("go", "env", "GOMODCACHE").Output())(t)
	dir := filepath.Join(strings.TrimSpace(string(cache)), kubernetesModule+"@"+version)
	if _, err := os.Stat(dir); err != nil {
		if !isolated.IsRequired("inside") {
			t.Skipf("Kubernetes %s is not in the module cache: REGCRED_TEST_REQUIRE=inside downloads it", version)
		}
		r := must.Get(release.OpenRelease(t.Context(), version))(t)
		dir = r.Dir
	}
	return must.Get(os.ReadFile(filepath.Join(dir, imageManagerFile)))(t)
}

// changedLines returns how many lines of to are not in from, in order.
func changedLines(from, to string) int {
	a, b := strings.Split(from, "\n"), strings.Split(to, "\n")
	// same[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	same := make([][]int, len(a)+1)
	for i := range same {
		same[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				same[i][j] = same[i+1][j+1] + 1
			} else {
				same[i][j] = max(same[i+1][j], same[i][j+1])
			}
		}
	}
	return len(b) - same[0][0]
}

// TestPatch verifies that PatchImageManager works for the releases that have the functions. For
// other releases, the error must name the missing function.
func TestPatch(t *testing.T) {
	for version, want := range map[string]string{
		kubelet.Version: "",
		"v1.37.2":       "",
		"v1.35.4":       "",
		"v1.34.4":       "pkg/kubelet/images/image_manager.go of Kubernetes v1.34.4: there are 0 functions makeLookupPullCredentialsFunc, want 1",
	} {
		t.Run(version, func(t *testing.T) {
			text := readImageManager(t, version)
			changed, err := PatchImageManager(version, text)
			if got := errorText(err); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
			if err != nil {
				return
			}
			for _, call := range []string{"plugin.LookupErr(externalCredentialProviderKeyring)", "plugin.WithLookupErr(imagePullResult.err, lookupErr)"} {
				if strings.Count(string(changed), call) != 1 {
					t.Errorf("there is not one call of %q", call)
				}
			}
			n := changedLines(string(text), string(changed))
			t.Logf("%d lines are changed", n)
			if n > maxChangedLines {
				t.Errorf("%d lines are changed, want at most %d", n, maxChangedLines)
			}
			if gone := changedLines(string(changed), string(text)); gone != 4 {
				t.Errorf("%d lines are no longer what they were, want 4: two signatures and two calls", gone)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestPatchManyLines verifies that PatchImageManager accepts calls and signatures that span several
// lines.
func TestPatchManyLines(t *testing.T) {
	text := readImageManager(t, kubelet.Version)
	for _, one := range []*regexp.Regexp{
		regexp.MustCompile(`(?m)(return m\.pullImage\(.*)\)$`),
		regexp.MustCompile(`(:= m\.makeLookupPullCredentialsFunc\([^()]*)\)`),
		regexp.MustCompile(`(\) pullImage\([^()]*)\)`),
		regexp.MustCompile(`(\) makeLookupPullCredentialsFunc\([^()]*)\)`),
	} {
		if len(one.FindAll(text, -1)) != 1 {
			t.Fatalf("the file has not one place like %s", one)
		}
		text = one.ReplaceAll(text, []byte("$1,\n)"))
	}
	changed := must.Get(PatchImageManager(kubelet.Version, text))(t)
	if n := strings.Count(string(changed), lookupErrVariable); n != 7 {
		t.Errorf("%s is there %d times, want 7:\n%s", lookupErrVariable, n, changed)
	}
}

// TestPatchRefuses verifies that the error of PatchImageManager names the missing or changed part
// of the file.
func TestPatchRefuses(t *testing.T) {
	text := string(readImageManager(t, kubelet.Version))
	for _, tt := range []struct{ name, old, new, want string }{
		{"no Go", "package images", "paquet images", "expected 'package'"},
		{"no lookup", ".Lookup(", ".Ask(", "func makeLookupPullCredentialsFunc: there are 0 calls of Lookup, want 1"},
		{"an unassigned lookup", "pullCredentials, _ := keyring.Lookup(repoToPull)", "pullCredentials := first(keyring.Lookup(repoToPull))", "func makeLookupPullCredentialsFunc: there are 0 assignments of what Lookup returns, want 1"},
		{"another keyring", "NewExternalCredentialProviderDockerKeyring", "NewKeyring", "func makeLookupPullCredentialsFunc: there are 0 calls of NewExternalCredentialProviderDockerKeyring, want 1"},
		{"pulled elsewhere", "return m.pullImage(", "return pull(", "func EnsureImageExists: there are 0 calls of pullImage, want 1"},
		{"pulled twice", "return m.pullImage(", "m.pullImage()\n\treturn m.pullImage(", "func EnsureImageExists: there are 2 calls of pullImage, want 1"},
		{"another name of a function", ") pullImage(", ") pull(", "there are 0 functions pullImage, want 1"},
		{"no channel", ":= <-pullChan", ":= pull()", "func pullImage: there are 0 variables received from a channel, want 1"},
		{"another condition", "if imagePullResult.err != nil", "if imagePullResult.failed", `func pullImage: there are 0 statements "if imagePullResult.err != nil", want 1`},
		{"a taken name", "backOffKey := ", "lookupErr := ", "the name lookupErr is taken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mutilated := strings.ReplaceAll(text, tt.old, tt.new)
			if mutilated == text {
				t.Fatalf("there is no %q in the file", tt.old)
			}
			_, err := PatchImageManager(kubelet.Version, []byte(mutilated))
			for _, want := range []string{kubelet.Version, imageManagerFile, tt.want} {
				if !strings.Contains(errorText(err), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
}
