// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package layout

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/regcred/regcred/internal/must"
)

// TestNotRegular verifies that a named pipe or a symlink to an endless device is rejected as a
// file of the layout.
func TestNotRegular(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a named pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"escapes":      func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		for _, file := range []string{layoutFile, indexFile} {
			t.Run(name+" as "+file, func(t *testing.T) {
				dir := t.TempDir()
				l, err := Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				path := filepath.Join(dir, file)
				os.Remove(path)
				must.Do(t, put(path))
				if err := CheckDir(t.Context(), dir); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), name) {
					t.Errorf("got %v, want that %s is %s", err, file, name)
				}
				if file == layoutFile {
					return
				}
				err = l.Tag(t.Context(), v1.Descriptor{}, "x")
				if _, ok := errors.AsType[*LocalError](err); !ok || !strings.Contains(err.Error(), name) {
					t.Errorf("got %v, want an Error: it is %s", err, name)
				}
			})
		}
	}
}
