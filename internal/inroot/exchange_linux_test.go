// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inroot_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/must"
)

// TestCheckOld verifies that a change fails and that the latest file is kept if another program
// changes the file immediately before the rename, or while it is put back.
func TestCheckOld(t *testing.T) {
	changed := errors.New("changed")
	replace := func(path, text string) func() {
		return func() {
			must.Do(t, os.WriteFile(path+"-foreign", []byte(text), 0o600))
			must.Do(t, os.Rename(path+"-foreign", path))
		}
	}
	none := func() {}
	path := filepath.Join(t.TempDir(), "file")
	remove := func() { os.Remove(path) }
	for name, tt := range map[string]struct {
		old          string // content that the change expects; "" for no file
		before, then func() // what other programs do before the rename and before the file is put back
		removal      bool
		want         string // content afterwards; "" for no file
		fails        bool
	}{
		"nothing changes":           {"old", none, none, false, "new", false},
		"a new file":                {"", none, none, false, "new", false},
		"replaced":                  {"old", replace(path, "foreign"), none, false, "foreign", true},
		"replaced twice":            {"old", replace(path, "foreign"), replace(path, "latest"), false, "latest", true},
		"replaced, then removed":    {"old", replace(path, "foreign"), remove, false, "", true},
		"removed":                   {"old", remove, none, false, "", true},
		"created":                   {"", replace(path, "foreign"), none, false, "foreign", true},
		"removal":                   {"old", none, none, true, "", false},
		"removal of a changed file": {"old", replace(path, "foreign"), none, true, "foreign", true},
		"removal, then created":     {"old", replace(path, "foreign"), replace(path, "latest"), true, "latest", true},
	} {
		remove()
		if tt.old != "" {
			must.Do(t, os.WriteFile(path, []byte(tt.old), 0o600))
		}
		f := inroot.FS{
			BeforeStep: func(step, _ string) error {
				if step == "rename" || step == "remove" {
					tt.before()
				}
				return nil
			},
			CheckOld: func(old string) error {
				data, err := os.ReadFile(old)
				if errors.Is(err, fs.ErrNotExist) && old != "" {
					t.Errorf("%s: %v", name, err)
				}
				if string(data) == tt.old {
					return nil
				}
				tt.then()
				return changed
			},
		}
		change := func() error {
			return f.WriteFile(path, strings.NewReader("new"), inroot.FileAttr{Mode: 0o600})
		}
		if tt.removal {
			change = func() error { return f.Remove(path) }
		}
		err := change()
		data, _ := os.ReadFile(path)
		if errors.Is(err, changed) != tt.fails || (err != nil) != tt.fails || string(data) != tt.want {
			t.Errorf("%s: got %v and %q, want %q", name, err, data, tt.want)
		}
		if left := listNames(t, filepath.Dir(path)); !slices.Equal(left, []string{"file"}) && len(left) > 0 {
			t.Errorf("%s: left over: %q", name, left)
		}
	}
}
