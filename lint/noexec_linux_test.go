// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

const noexecDirVar = "REGCRED_TEST_NOEXEC_DIR"

// TestLintNoexecMount verifies the finding for a plugin directory on a noexec mount. The test runs
// in a separate mount namespace.
func TestLintNoexecMount(t *testing.T) {
	if dir := os.Getenv(noexecDirVar); dir != "" {
		lintNoexecMount(t, dir)
		return
	}
	this := must.Get(os.Executable())(t)
	cmd := exec.Command(this, "-test.run=^TestLintNoexecMount$", "-test.v")
	cmd.Env = append(os.Environ(), noexecDirVar+"="+newBinDir(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	switch text := string(out); {
	case err != nil && (len(out) == 0 || strings.Contains(text, "may not mount")):
		t.Skipf("this needs the right to mount: %v", err)
	case err != nil || !strings.Contains(text, "--- PASS: TestLintNoexecMount"):
		t.Errorf("%v\n%s", err, text)
	}
}

func lintNoexecMount(t *testing.T, dir string) {
	if got := briefFindings(lintBinDir(dir)); got != nil {
		t.Fatalf("before: %v", got)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOEXEC, "size=64k,mode=755"); err != nil {
		t.Fatalf("may not mount: %v", err)
	}
	want := []string{"noexec-mount : use a directory on a file system that allows exec"}
	if diff := cmp.Diff(want, briefFindings(lintBinDir(dir))); diff != "" {
		t.Error(diff)
	}
}
