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

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/kubelet"
)

// TestFindBelowBlanks verifies that listPackages works if the path of the module cache contains
// spaces.
func TestFindBelowBlanks(t *testing.T) {
	readImageManager(t, kubelet.Version) // skips the test if the release is not available
	out := must.Get(exec.Command("go", "env", "GOMODCACHE").Output())(t)
	cache := filepath.Join(t.TempDir(), "two  names")
	must.Do(t, os.Symlink(strings.TrimSpace(string(out)), cache))
	t.Setenv("GOMODCACHE", cache)
	var s sourceCopy
	must.Do(t, s.listPackages(t.Context()))
	if !strings.HasPrefix(s.release, cache) {
		t.Errorf("the release is in %s, want it below %s", s.release, cache)
	}
	if i := slices.IndexFunc(s.packages, func(dir string) bool { return !filepath.IsLocal(dir) }); i >= 0 {
		t.Errorf("%q is no directory of the release", s.packages[i])
	}
}
