// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inroot_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/must"
)

// TestOverlay applies random changes to a directory and to an overlay of a copy, and verifies that both then have
// the same files, that the same changes fail, and that the copy on disk is unchanged.
func TestOverlay(t *testing.T) {
	const sequences, length = 40, 30
	changes, failed := 0, 0
	for seed := range uint64(sequences) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		disk := inroot.FS{Root: t.TempDir()}
		for range rnd.IntN(15) {
			_ = randomChange(rnd)(disk)
		}
		copied := filepath.Join(t.TempDir(), "copy")
		must.Do(t, exec.Command("cp", "-a", disk.Root, copied).Run())
		planned := inroot.FS{Root: copied, Overlay: inroot.NewOverlay()}
		before := listTree(t, inroot.FS{Root: copied})
		for range length {
			change := randomChange(rnd)
			changes++
			want, got := change(disk), change(planned)
			if want != nil {
				failed++
			}
			if (want == nil) != (got == nil) || errors.Is(want, fs.ErrNotExist) != errors.Is(got, fs.ErrNotExist) || errors.Is(want, fs.ErrExist) != errors.Is(got, fs.ErrExist) {
				t.Fatalf("seed %d: error %v on disk, %v in the overlay\n%s", seed, want, got, listTree(t, disk))
			}
			if want, got := listTree(t, disk), listTree(t, planned); got != want {
				t.Fatalf("seed %d: the overlay has\n%s\nwant\n%s", seed, got, want)
			}
		}
		if after := listTree(t, inroot.FS{Root: copied}); after != before {
			t.Fatalf("seed %d: the directory below the overlay has changed to\n%s\nfrom\n%s", seed, after, before)
		}
	}
	t.Logf("%d changes, of which %d failed", changes, failed)
	if failed == 0 || failed > changes*3/4 {
		t.Errorf("%d of %d changes failed", failed, changes)
	}
}

// randomChange returns a random change of a small tree.
func randomChange(rnd *rand.Rand) func(inroot.FS) error {
	name := func() string {
		names := []string{"a", "b", "c", "dir", "dir/a", "dir/b", "dir/sub", "dir/sub/a", "other", "other/a", "link", "link/a", "link/sub", "up", "up/a"}
		return "/" + names[rnd.IntN(len(names))]
	}
	a, b, text := name(), name(), fmt.Sprint(rnd.Uint32())
	target := []string{"/dir", "dir/sub", "../dir", "/link", "nothing", "/other", "a", "../../b", "."}[rnd.IntN(9)]
	mode := fs.FileMode(0o600 + rnd.IntN(2)*0o44)
	switch rnd.IntN(10) {
	case 0, 1:
		return func(f inroot.FS) error { return f.WriteFile(a, strings.NewReader(text), inroot.FileAttr{Mode: mode}) }
	case 2:
		return func(f inroot.FS) error { return f.CreateFile(a, strings.NewReader(text), inroot.FileAttr{Mode: mode}) }
	case 3:
		return func(f inroot.FS) error { return f.Symlink(target, a) }
	case 4, 5:
		return func(f inroot.FS) error { return f.Mkdir(a, 0o755) }
	case 6:
		return func(f inroot.FS) error { return f.Remove(a) }
	case 7:
		return func(f inroot.FS) error { return f.RemoveAll(a) }
	case 8:
		return func(f inroot.FS) error {
			// Of a directory there are no hard links, and not every rename is possible.
			if info, err := f.Lstat(a); err != nil || !info.Mode().IsRegular() {
				return fs.ErrInvalid
			}
			if f.Exists(b) {
				return fs.ErrInvalid
			}
			return f.HardLink(a, b)
		}
	}
	return func(f inroot.FS) error {
		if !f.Exists(a) || f.Exists(b) || strings.HasPrefix(b, a) {
			return fs.ErrInvalid
		}
		return f.Rename(a, b)
	}
}

// listTree lists all files of a tree as text.
func listTree(t *testing.T, f inroot.FS) string {
	t.Helper()
	var b strings.Builder
	var list func(dir string)
	list = func(dir string) {
		for _, e := range must.Get(f.ReadDir(dir))(t) {
			name := path.Join(dir, e.Name())
			info := must.Get(f.Lstat(name))(t)
			real, realErr := f.EvalSymlinks(name)
			data, readErr := f.ReadFile(t.Context(), name)
			target, _ := f.Readlink(name)
			fmt.Fprintf(&b, "%s %v %v %q -> %q is %q, %t; content %q, %t\n", name, info.Mode(), e.Type(), info.Name(), target, real, realErr == nil, data, readErr == nil)
			if info.IsDir() {
				list(name)
			}
		}
	}
	list("/")
	return b.String()
}

// TestOverlayLongFile verifies that a long file is not kept in memory, and that a file on disk can be opened.
func TestOverlayLongFile(t *testing.T) {
	f := inroot.FS{Root: t.TempDir(), Overlay: inroot.NewOverlay()}
	must.Do(t, os.WriteFile(filepath.Join(f.Root, "there"), []byte("x"), 0o600))
	must.Do(t, f.WriteFile("/long", strings.NewReader(strings.Repeat("x", 17<<20)), inroot.FileAttr{Mode: 0o600}))
	info := must.Get(f.Stat("/long"))(t)
	data := must.Get(f.ReadFile(t.Context(), "/long"))(t)
	if info.Size() != 17<<20 || len(data) != 16<<20 {
		t.Errorf("size %d, of which %d bytes are kept", info.Size(), len(data))
	}
	if _, err := f.Open("/long"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("open a file of the overlay: %v", err)
	}
	must.Do(t, must.Get(f.Open("/there"))(t).Close())
}
