// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

// listDir returns the modes and contents of all files in a directory, by name.
func listDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		info := must.Get(e.Info())(t)
		text := "directory"
		if !info.IsDir() {
			data := must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
			text = string(data)
		}
		mode := ""
		if runtime.GOOS != "windows" {
			mode = info.Mode().String() + " "
		}
		got[e.Name()] = mode + text
	}
	return got
}

// formatMode formats a file's mode and text for comparison with list. It omits the mode on Windows.
func formatMode(m, text string) string {
	if runtime.GOOS == "windows" {
		return text
	}
	return m + " " + text
}

// compareDirs compares two directory listings from list.
func compareDirs(t *testing.T, want, got map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// newReplacements writes files to a directory and returns replacements for them.
func newReplacements(t *testing.T, dir string, names ...string) []File {
	t.Helper()
	var files []File
	for _, name := range names {
		path := writeFile(t, dir, name, "old "+name)
		files = append(files, File{Name: path, Data: []byte("new " + name), Source: []byte("old " + name)})
	}
	return files
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	files := newReplacements(t, dir, "a.yaml", "b.json", "same.yaml")
	files[2].Data = files[2].Source
	must.Do(t, os.Chmod(files[0].Name, 0o640))
	done := must.Get(Replace(files))(t)
	want := []ReplacedFile{{Name: files[0].Name, Backup: files[0].Name + ".bak"}, {Name: files[1].Name, Backup: files[1].Name + ".bak"}}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	compareDirs(t, map[string]string{
		"a.yaml":     formatMode("-rw-r-----", "new a.yaml"),
		"a.yaml.bak": formatMode("-rw-r-----", "old a.yaml"),
		"b.json":     formatMode("-rw-------", "new b.json"),
		"b.json.bak": formatMode("-rw-------", "old b.json"),
		"same.yaml":  formatMode("-rw-------", "old same.yaml"),
	}, listDir(t, dir))
}

// TestReplaceKeepsBackups verifies that a new backup does not overwrite an older one, and that the
// kubelet does not read backups.
func TestReplaceKeepsBackups(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a.yaml.bak", "first")
	must.Do(t, os.Mkdir(filepath.Join(dir, "a.yaml.bak.1"), 0o700))
	must.Get(Replace(newReplacements(t, dir, "a.yaml")))(t)
	compareDirs(t, map[string]string{
		"a.yaml":       formatMode("-rw-------", "new a.yaml"),
		"a.yaml.bak":   formatMode("-rw-------", "first"),
		"a.yaml.bak.1": formatMode("drwx------", "directory"),
		"a.yaml.bak.2": formatMode("-rw-------", "old a.yaml"),
	}, listDir(t, dir))
}

// TestReplaceAllOrNothing verifies that Replace changes no file and leaves no temporary files if
// one file fails.
func TestReplaceAllOrNothing(t *testing.T) {
	tests := []struct {
		name, want string
		spoil      func(t *testing.T, files []File)
	}{
		{"changed meanwhile", "has changed since it was read", func(t *testing.T, files []File) {
			writeFile(t, filepath.Dir(files[1].Name), filepath.Base(files[1].Name), "another text")
		}},
		{"gone", "no such file", func(t *testing.T, files []File) { removeFile(t, files[1].Name) }},
		{"a directory now", "directory", func(t *testing.T, files []File) {
			removeFile(t, files[1].Name)
			must.Do(t, os.Mkdir(files[1].Name, 0o700))
		}},
		{"a symbolic link", "is a symbolic link", func(t *testing.T, files []File) {
			must.Do(t, os.Rename(files[1].Name, files[1].Name+".target"))
			must.Do(t, os.Symlink(files[1].Name+".target", files[1].Name))
		}},
		{"name without room for a suffix", "name too long", func(t *testing.T, files []File) {
			long := filepath.Join(filepath.Dir(files[1].Name), strings.Repeat("x", 252))
			must.Do(t, os.Rename(files[1].Name, long))
			files[1].Name = long
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if runtime.GOOS == "windows" {
				t.Skip("the messages are those of Unix")
			}
			dir := t.TempDir()
			files := newReplacements(t, dir, "a.yaml", "b.yaml", "c.yaml")
			tt.spoil(t, files)
			before := listDir(t, dir)
			if _, err := Replace(files); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			compareDirs(t, before, listDir(t, dir))
		})
	}
}

func removeFile(t *testing.T, name string) {
	t.Helper()
	must.Do(t, os.Remove(name))
}

// TestReplaceRestores verifies that files that were already replaced are restored after a failure.
func TestReplaceRestores(t *testing.T) {
	dir := t.TempDir()
	files := newReplacements(t, dir, "a.yaml", "b.yaml", "c.yaml")
	before := listDir(t, dir)
	replacing, err := backUpFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	replacing[1].Name = filepath.Join(dir, "none", "b.yaml")
	err = replaceFiles(replacing)
	if !errors.Is(err, fs.ErrNotExist) || !replacing[0].replaced || replacing[1].replaced {
		t.Fatalf("got %v, done %v %v", err, replacing[0].replaced, replacing[1].replaced)
	}
	must.Do(t, restoreFiles(replacing))
	compareDirs(t, before, listDir(t, dir))

	// If restoring fails too, the error names the backup.
	if replacing, err = backUpFiles(files[:1]); err != nil {
		t.Fatal(err)
	}
	must.Do(t, replaceFiles(replacing))
	removeFile(t, replacing[0].Backup)
	if err := restoreFiles(replacing); err == nil || !strings.Contains(err.Error(), "its previous content is in "+replacing[0].Backup) {
		t.Errorf("got %v", err)
	}
}

func TestCreateFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "new.yaml")
	must.Do(t, CreateFile(name, []byte("text")))
	must.Do(t, os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "link.yaml")))
	for _, taken := range []string{"new.yaml", "link.yaml"} {
		if err := CreateFile(filepath.Join(dir, taken), []byte("other")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: got %v", taken, err)
		}
	}
	removeFile(t, filepath.Join(dir, "link.yaml"))
	compareDirs(t, map[string]string{"new.yaml": formatMode("-rw-------", "text")}, listDir(t, dir))
}

func TestCreateDir(t *testing.T) {
	top := t.TempDir()
	files := []File{{Name: "10-a.yaml", Data: []byte("a")}, {Name: "20-b.yaml", Data: []byte("b")}}
	want := map[string]string{"10-a.yaml": formatMode("-rw-------", "a"), "20-b.yaml": formatMode("-rw-------", "b")}
	dir := filepath.Join(top, "new")
	must.Do(t, CreateDir(dir, files))
	compareDirs(t, want, listDir(t, dir))
	if err := CreateDir(dir, files); err == nil || !strings.Contains(err.Error(), "already contains 10-a.yaml") {
		t.Errorf("twice: got %v", err)
	}
	compareDirs(t, want, listDir(t, dir))

	// A directory may contain files that are not configurations.
	other := filepath.Join(top, "other")
	must.Do(t, os.Mkdir(other, 0o700))
	writeFile(t, other, "README", "")
	if err := CreateDir(other, append(files, File{Name: "README"})); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a name that is taken: got %v", err)
	}
	compareDirs(t, map[string]string{"README": formatMode("-rw-------", "")}, listDir(t, other))

	// CreateDir removes the new directory after a failure.
	if err := CreateDir(filepath.Join(top, "broken"), append(files, files[0])); !errors.Is(err, fs.ErrExist) {
		t.Errorf("two files of one name: got %v", err)
	}
	if _, err := os.Stat(filepath.Join(top, "broken")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory stays: %v", err)
	}
	if err := CreateDir(filepath.Join(top, "none", "new"), files); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no parent: got %v", err)
	}
}
