// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/must"
)

// TestChangeBeforeRename verifies that a change that another program makes between the last check
// and the rename is neither lost nor overwritten.
func TestChangeBeforeRename(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	replace := func() {
		writeTestFile(t, path+"-foreign", "foreign", 0o600)
		must.Do(t, os.Rename(path+"-foreign", path))
	}
	for name, tt := range map[string]struct {
		old     string // "" for no file
		foreign func()
		want    string
	}{
		"replaced":         {"old", replace, "foreign"},
		"written in place": {"old", func() { writeTestFile(t, path, "foreign", 0o600) }, "foreign"},
		"created":          {"", replace, "foreign"},
		"removed":          {"old", func() { must.Do(t, os.Remove(path)) }, ""},
		"now a symlink": {"old", func() {
			must.Do(t, errors.Join(os.Remove(path), os.WriteFile(path+"-target", []byte("old"), 0o600), os.Symlink(path+"-target", path)))
		}, "old"},
	} {
		for _, removal := range []bool{false, true} {
			if removal && tt.old == "" || removal && tt.want == "" {
				continue
			}
			os.Remove(path)
			if tt.old != "" {
				writeTestFile(t, path, tt.old, 0o600)
			}
			f := must.Get(readFile(path))(t)
			node := f.checkedFS()
			check := node.BeforeStep
			node.BeforeStep = func(step, name string) error {
				err := check(step, name)
				if step == "rename" || step == "remove" {
					tt.foreign()
				}
				return err
			}
			change := func() error {
				return node.WriteFile(f.target, bytes.NewReader([]byte("new")), inroot.FileAttr{Mode: 0o600})
			}
			if removal {
				change = func() error { return node.Remove(f.target) }
			}
			err := change()
			data, _ := os.ReadFile(path)
			if !errors.Is(err, errConcurrentChange) || string(data) != tt.want {
				t.Errorf("%s, removal %v: got %v and %q, want %q", name, removal, err, data, tt.want)
			}
		}
	}
}
