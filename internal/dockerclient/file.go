// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/regcred/regcred/internal/flock"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/secretfile"
)

// FileChange describes a change to a file.
type FileChange struct {
	Path     string
	Old, New []byte // nil means no file; both can contain credentials
}

// IsChanged reports whether the file differs.
func (c FileChange) IsChanged() bool {
	return !bytes.Equal(c.Old, c.New) || (c.Old == nil) != (c.New == nil)
}

// Format prints only the path of c, because the rest is secret.
func (c FileChange) Format(s fmt.State, _ rune) { io.WriteString(s, c.Path) }

// PlanChange reads a file and returns the change that edit would make, without writing the file.
// For a missing file, edit is called with nil. edit returns nil to remove the file. PlanChange
// rejects a file that other users can write to, because the file names programs that this user's
// clients run.
func PlanChange(path string, edit func([]byte) ([]byte, error)) (FileChange, error) {
	_, c, err := planChange(path, edit)
	return c, err
}

func planChange(path string, edit func([]byte) ([]byte, error)) (*fileSnapshot, FileChange, error) {
	c := FileChange{Path: path}
	f, err := readFile(path)
	if err == nil {
		err = f.untrusted
	}
	if err != nil {
		return nil, c, err
	}
	c.Old = f.data
	if c.New, err = edit(f.data); err != nil {
		return nil, c, fmt.Errorf("%s: %w", path, err)
	}
	return f, c, nil
}

// ApplyChange makes the change that [PlanChange] returns. It replaces the file atomically, and
// preserves its mode, its owner and symlinks to it. A new file has mode 0600, and a new directory
// 0700. Concurrent calls wait for each other. If a program that does not take the lock has changed
// the file in the meantime, ApplyChange starts again.
func ApplyChange(ctx context.Context, path string, edit func([]byte) ([]byte, error)) (FileChange, error) {
	f, c, err := planChange(path, edit)
	if err != nil || !c.IsChanged() {
		return c, err
	}
	dir := filepath.Dir(f.target)
	if err := makeDir(dir); err != nil {
		return c, fmt.Errorf("create the parent directory of %s: %w", path, err)
	}
	unlock, err := flock.LockDir(ctx, dir)
	if err != nil {
		return c, fmt.Errorf("lock the parent directory of %s: %w", path, err)
	}
	defer unlock()
	for range maxApplyAttempts {
		if f, c, err = planChange(path, edit); err != nil || !c.IsChanged() {
			return c, err
		}
		if err = f.replaceContent(c.New); !errors.Is(err, errConcurrentChange) {
			return c, err
		}
	}
	return c, fmt.Errorf("%s: %w", path, err)
}

const maxApplyAttempts = 10

// makeDir creates a directory and its parents with mode 0700. If root creates them,
// they get the parent's owner.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(dir)
	if above == dir {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrNotExist}
	}
	if err := makeDir(above); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster; if it created a file, a later step fails
	}
	if err != nil {
		return err
	}
	if made, err := os.Open(dir); err == nil {
		defer made.Close()
		if info, err := os.Stat(above); err == nil {
			_ = inroot.CopyOwner(made, info)
		}
	}
	return nil
}

var errConcurrentChange = errors.New("another program keeps changing the file: stop the program, or try again")

// fileSnapshot is a file and its content when it was read.
type fileSnapshot struct {
	path   string
	target string // path with symlinks resolved
	data   []byte // nil for a missing file

	untrusted error // set if other users can write the file
}

func readFile(path string) (*fileSnapshot, error) {
	at, err := resolveTarget(path)
	if err != nil {
		return nil, err
	}
	f := &fileSnapshot{path: path, target: at}
	files, err := secretfile.Read(f.target)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	f.data, f.untrusted = files[0].Data, files[0].CheckNotWritable()
	if f.data == nil {
		f.data = []byte{}
	}
	return f, nil
}

// resolveTarget resolves the symlinks of a path. The file need not exist.
func resolveTarget(path string) (string, error) {
	to, err := filepath.EvalSymlinks(path)
	if err == nil {
		return to, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if link, err := os.Readlink(path); err == nil {
		return "", fmt.Errorf("%s is a dangling symlink to %s: remove it", path, link)
	}
	// The directory may be a symlink.
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path)), nil
	}
	return filepath.Clean(path), nil
}

// replaceContent replaces the file's content with data, or removes the file if data is nil. It
// fails with errConcurrentChange if another program changed the file after it was read.
func (f *fileSnapshot) replaceContent(data []byte) error {
	inroot.FS{}.RemoveTempFiles(f.target) // the caller holds the lock
	node := f.checkedFS()
	if data == nil {
		return node.Remove(f.target)
	}
	attr := inroot.FileAttr{Mode: 0o600}
	var err error
	if f.data == nil {
		// Root may create the file for the user who owns the directory.
		attr.OwnerFrom, err = os.Stat(filepath.Dir(f.target))
	} else if err = node.WritableError(f.target); err == nil {
		attr, err = node.AttrOf(f.target)
	}
	if err != nil {
		return err
	}
	err = node.WriteFile(f.target, bytes.NewReader(data), attr)
	switch {
	case !inroot.IsOwnerError(err):
		return err
	case f.data == nil:
		return node.WriteFile(f.target, bytes.NewReader(data), inroot.FileAttr{Mode: 0o600})
	}
	return fmt.Errorf("%s belongs to another user or group, and this user cannot preserve the ownership: chown the file to this user", f.path)
}

// checkedFS returns a file system whose changes fail with errConcurrentChange if another program
// changed the file after it was read.
func (f *fileSnapshot) checkedFS() inroot.FS {
	return inroot.FS{CheckOld: f.checkOld, BeforeStep: func(step, _ string) error {
		if step == "rename" || step == "remove" {
			return f.checkUnchanged()
		}
		return nil
	}}
}

// checkOld returns errConcurrentChange if a file that was taken out, or "" for none, is not the file
// that was read.
func (f *fileSnapshot) checkOld(old string) error {
	if old == "" {
		if f.data != nil {
			return errConcurrentChange
		}
		return nil
	}
	info, err := os.Lstat(old)
	if err != nil || !info.Mode().IsRegular() {
		return errConcurrentChange
	}
	if data, err := os.ReadFile(old); err != nil || f.data == nil || !bytes.Equal(data, f.data) {
		return errConcurrentChange
	}
	return nil
}

// checkUnchanged returns errConcurrentChange if the file was changed after it was read.
func (f *fileSnapshot) checkUnchanged() error {
	now, err := readFile(f.path)
	if err != nil {
		return err
	}
	if now.target != f.target || (FileChange{Old: f.data, New: now.data}).IsChanged() {
		return errConcurrentChange
	}
	return nil
}
