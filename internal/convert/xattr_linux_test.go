// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestReplaceKeepsAttributes verifies that a converted file and its backup keep the extended
// attributes, and that a file with hard links is not replaced.
func TestReplaceKeepsAttributes(t *testing.T) {
	dir := t.TempDir()
	files := newReplacements(t, dir, "a.yaml", "b.yaml")
	if err := syscall.Setxattr(files[0].Name, "user.origin", []byte("x"), 0); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	must.Get(Replace(files[:1]))(t)
	for _, name := range []string{"a.yaml", "a.yaml.bak"} {
		buf := make([]byte, 10)
		if n, err := syscall.Getxattr(filepath.Join(dir, name), "user.origin", buf); err != nil || string(buf[:n]) != "x" {
			t.Errorf("%s: user.origin is %q, %v", name, buf[:max(n, 0)], err)
		}
	}
	must.Do(t, os.Link(files[1].Name, files[1].Name+".other"))
	if _, err := Replace(files[1:]); err == nil || !strings.Contains(err.Error(), "has 2 names (hard links)") {
		t.Errorf("with a hard link: got %v", err)
	}
}
