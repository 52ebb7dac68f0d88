// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestDescriptorsAreClosed: by the run, not by the garbage collector some day;
// of plugins that answer, and of those that do not start.
func TestDescriptorsAreClosed(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	missing := testCommand(t, "say")
	missing.Path = filepath.Join(t.TempDir(), "none")
	run := func() {
		for _, c := range []Command{testCommand(t, "say"), missing} {
			_, _ = c.GetCredentials(t.Context(), testRequest())
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

// TestStartErrorsInDir: a path that is relative is relative to Dir.
func TestStartErrorsInDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, dir, want string }{
		{"./plain", dir, "not executable"},
		{"./none", dir, "there is no such file"},
		{"./plain", filepath.Join(dir, "plain"), "is not a directory"},
		{"./plain", filepath.Join(dir, "none"), "is not a directory"},
	} {
		_, err := Command{Path: tt.path, Dir: tt.dir, APIVersion: V1}.GetCredentials(t.Context(), testRequest())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s in %s: %v, want %q", tt.path, filepath.Base(tt.dir), err, tt.want)
		}
	}
}
