// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestApplyKeepsAttributes verifies that a changed file keeps its extended attributes, and that a
// file with hard links is not replaced.
func TestApplyKeepsAttributes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	writeTestFile(t, path, "{}", 0o600)
	if err := syscall.Setxattr(path, "user.origin", []byte("x"), 0); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	must.Get(ApplyChange(t.Context(), path, putDesired))(t)
	buf := make([]byte, 10)
	if n, err := syscall.Getxattr(path, "user.origin", buf); err != nil || string(buf[:n]) != "x" {
		t.Errorf("user.origin after the change: %q, %v", buf[:max(n, 0)], err)
	}
	before := readTestFile(t, path)
	must.Do(t, os.Link(path, path+".other"))
	if _, err := ApplyChange(t.Context(), path, RemoveEntries); err == nil || !strings.Contains(err.Error(), "has 2 names (hard links)") || readTestFile(t, path) != before {
		t.Errorf("with a hard link: got %v", err)
	}
}
