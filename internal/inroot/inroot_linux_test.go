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
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/must"
)

// TestLinksStayInside verifies that absolute symlinks and ".." do not lead out of the node's
// root directory.
func TestLinksStayInside(t *testing.T) {
	outside, root := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(outside, "file"), "outside")
	writeFile(t, filepath.Join(root, "real", "file"), "inside")
	for link, target := range map[string]string{
		"absolute": "/real", "up": "../../../../real", "out": outside, "chain": "/absolute", "dangling": "/nothing", "loop": "/loop",
	} {
		must.Do(t, os.Symlink(target, filepath.Join(root, link)))
	}
	f := inroot.FS{Root: root}
	for _, dir := range []string{"/real", "/absolute", "/up", "/chain"} {
		data, err := f.ReadFile(t.Context(), dir+"/file")
		if err != nil || string(data) != "inside" {
			t.Errorf("%s: read %q, %v", dir, data, err)
		}
		if real, err := f.EvalSymlinks(dir + "/file"); err != nil || real != "/real/file" {
			t.Errorf("%s: it is really %q, %v", dir, real, err)
		}
		if entries, err := f.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%s: listed %v, %v", dir, entries, err)
		}
	}
	for _, dir := range []string{"/out", "/dangling", "/loop"} {
		if _, err := f.ReadFile(t.Context(), dir+"/file"); err == nil || !strings.Contains(err.Error(), filepath.Join(root, dir)) {
			t.Errorf("%s: error %v", dir, err)
		}
		if err := f.WriteFile(dir+"/new", strings.NewReader("x"), inroot.FileAttr{Mode: 0o600}); err == nil {
			t.Errorf("%s: written", dir)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside there is %v, %v", entries, err)
	}
	must.Do(t, f.WriteFile("/chain/new", strings.NewReader("new"), inroot.FileAttr{Mode: 0o640}))
	if data, err := os.ReadFile(filepath.Join(root, "real", "new")); err != nil || string(data) != "new" {
		t.Errorf("written %q, %v", data, err)
	}
}

// TestEveryStepFails verifies that a change that fails at any step keeps the previous file and
// leaves no temporary files.
func TestEveryStepFails(t *testing.T) {
	for _, root := range []string{"", t.TempDir()} {
		dir := t.TempDir()
		if root != "" {
			dir = root
		}
		f := inroot.FS{Root: root}
		name := func(s string) string { return filepath.Join("/", strings.TrimPrefix(filepath.Join(dir, s), root)) }
		broken := errors.New("broken")
		changes := map[string]func(f inroot.FS) error{
			"put": func(f inroot.FS) error {
				return f.WriteFile(name("file"), strings.NewReader("new"), inroot.FileAttr{Mode: 0o644})
			},
			"link": func(f inroot.FS) error { return f.Symlink("elsewhere", name("file")) },
			"same": func(f inroot.FS) error { return f.HardLink(name("other"), name("file")) },
			"move": func(f inroot.FS) error { return f.Rename(name("other"), name("file")) },
		}
		for what, change := range changes {
			steps := 0
			for fail := 1; ; fail++ {
				writeFile(t, filepath.Join(dir, "file"), "old")
				writeFile(t, filepath.Join(dir, "other"), "other")
				step := 0
				f.BeforeStep = func(string, string) error {
					if step++; step == fail {
						return broken
					}
					return nil
				}
				err := change(f)
				if err == nil {
					break
				}
				steps++
				data, _ := os.ReadFile(filepath.Join(dir, "file"))
				if !errors.Is(err, broken) || string(data) != "old" || !slices.Equal(listNames(t, dir), []string{"file", "other"}) {
					t.Errorf("%s, step %d: %v, file %q, directory %v", what, fail, err, data, listNames(t, dir))
				}
			}
			if steps == 0 {
				t.Errorf("%s has no steps", what)
			}
			os.Remove(filepath.Join(dir, "file"))
		}
	}
}

// TestPut verifies that WriteFile and Mkdir set the mode whatever the umask is, and that
// WriteFile replaces a symlink without changing its target.
func TestPut(t *testing.T) {
	dir := t.TempDir()
	f := inroot.FS{Root: dir}
	writeFile(t, filepath.Join(dir, "target"), "target")
	must.Do(t, os.Symlink("target", filepath.Join(dir, "file")))
	like := must.Get(os.Stat(filepath.Join(dir, "target")))(t)
	defer syscall.Umask(syscall.Umask(0o077))
	must.Do(t, f.WriteFile("/file", strings.NewReader("new"), inroot.FileAttr{Mode: 0o664, OwnerFrom: like}))
	info, err := os.Lstat(filepath.Join(dir, "file"))
	if err != nil || info.Mode() != 0o664 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if data, _ := os.ReadFile(filepath.Join(dir, "target")); string(data) != "target" {
		t.Errorf("the symlink's target contains %q", data)
	}
	must.Do(t, f.Mkdir("/d", 0o755))
	if info, _ := os.Stat(filepath.Join(dir, "d")); info.Mode().Perm() != 0o755 {
		t.Errorf("directory of mode %v", info.Mode())
	}
	if err := errors.Join(f.Remove("/d"), f.Remove("/d"), f.RemoveAll("/nothing")); err != nil {
		t.Error(err)
	}
	if _, err := f.Stat("/d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
	_ = os.Remove(name)
	must.Do(t, os.WriteFile(name, []byte(text), 0o644))
}

func listNames(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
