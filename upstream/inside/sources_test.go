// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inside

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/upstream/kubelet"
)

// TestFindBelowBlanks verifies that find works if the module cache's path contains spaces.
func TestFindBelowBlanks(t *testing.T) {
	imageManagerOf(t, kubelet.Version) // skips the test if unavailable
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(t.TempDir(), "two  names")
	if err := os.Symlink(strings.TrimSpace(string(out)), cache); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOMODCACHE", cache)
	var s sourceCopy
	if err := s.listPackages(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.release, cache) {
		t.Errorf("the release is in %s, want it below %s", s.release, cache)
	}
	if i := slices.IndexFunc(s.packages, func(dir string) bool { return !filepath.IsLocal(dir) }); i >= 0 {
		t.Errorf("%q is no directory of the release", s.packages[i])
	}
}
