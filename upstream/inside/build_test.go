// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inside

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestBuildRefuses verifies that Build immediately rejects a path at which it cannot write a
// kubelet.
func TestBuildRefuses(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // stops Build before it builds
	for path, want := range map[string]string{
		dir:                                  "is a directory",
		os.DevNull:                           "a device",
		filepath.Join(dir, "absent/kubelet"): "absent",
	} {
		if err := Build(ctx, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", path, err, want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%d files were written, %v", len(entries), err)
	}
}

// TestBuildFails verifies that a failed build keeps the existing file and leaves no other files.
func TestBuildFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubelet")
	must.Do(t, os.WriteFile(path, []byte("the former one"), 0o700))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Build(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it canceled", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "the former one" {
		t.Errorf("there is %q now, %v", text, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files are there, %v; want 1", len(entries), err)
	}
}
