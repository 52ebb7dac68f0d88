// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package process

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries := must.Get(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// TestDescriptorsAreClosed verifies that Run closes its descriptors, whether or not the program
// starts. The garbage collector, which also closes files, is off.
func TestDescriptorsAreClosed(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	missing := testCommand(t, "say")
	missing.Path = filepath.Join(t.TempDir(), "none")
	run := func() {
		for _, c := range []Command{testCommand(t, "say"), missing} {
			_, _ = c.Run(t.Context(), strings.NewReader("request"))
		}
	}
	run()
	before := openDescriptors(t)
	const runs = 20
	for range runs {
		run()
	}
	if after := openDescriptors(t); after >= before+runs {
		t.Errorf("%d descriptors before %d runs, %d after", before, runs, after)
	}
}

// TestEscapedChildKeepsNoDescriptors verifies that Run closes its ends of the pipes at the
// deadline, even if a child process in another session still holds the other ends.
func TestEscapedChildKeepsNoDescriptors(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	f := newTestPipes(t)
	before := openDescriptors(t)
	deadline := make(chan time.Time, 1)
	done := runInBackground(t.Context(), testCommand(t, "fork-escape", f.env...), deadline)
	pids := f.readPIDs(t, 2)
	held := openDescriptors(t) - before // descriptors of the run, and of the test for its two processes
	deadline <- time.Time{}
	x, err := f.waitResult(t, done)
	checkRun(t, x, err, ReasonTimedOut)
	if after := openDescriptors(t) - before; after > held-2 {
		t.Errorf("%d descriptors more than before, and %d during the run; want two less, since standard output and error are closed", after, held)
	}
	syscall.Kill(pids["child"], syscall.SIGKILL)
	f.checkAllExited(t)
}

// TestStartErrorsInDir verifies the errors for a relative path, which is relative to Dir, and for
// an invalid Dir.
func TestStartErrorsInDir(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "plain"), nil, 0o644))
	for _, tt := range []struct{ path, dir, want string }{
		{"./plain", dir, "not executable"},
		{"./none", dir, "no such file or directory"},
		{"./plain", filepath.Join(dir, "plain"), "is not a directory"},
		{"./plain", filepath.Join(dir, "none"), "is not a directory"},
	} {
		_, err := Command{Path: tt.path, Dir: tt.dir, Timeout: time.Minute}.Run(t.Context(), strings.NewReader("request"))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s in %s: %v, want %q", tt.path, filepath.Base(tt.dir), err, tt.want)
		}
	}
}
