// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inroot

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// FileAttr holds the attributes of a new file.
type FileAttr struct {
	Mode      fs.FileMode // permissions
	OwnerFrom fs.FileInfo // has the owner and group; nil means the process's
	Label     string      // SELinux label, as in security.selinux; "" means the directory's default
}

// tempExt is the extension of files that have not been renamed yet. No program
// reads them as configuration.
const tempExt = ".regcred-new"

// IsTemporary reports whether a file is left over from an interrupted write.
func IsTemporary(name string) bool { return path.Ext(name) == tempExt }

// RemoveTempFiles removes what interrupted writes of a file left over. The caller must
// hold a lock that every writer of the file takes.
func (f FS) RemoveTempFiles(name string) {
	dir, base := filepath.Split(name)
	_ = f.removeTemp(dir, "."+base+"-")
}

// Sweep removes all that interrupted writes left behind in a directory, if it exists. Like
// [FS.RemoveTempFiles] it needs a lock.
func (f FS) Sweep(dir string) error { return f.removeTemp(dir, "") }

func (f FS) removeTemp(dir, prefix string) (err error) {
	entries, _ := f.ReadDir(dir)
	for _, e := range entries {
		if IsTemporary(e.Name()) && strings.HasPrefix(e.Name(), prefix) {
			err = cmp.Or(err, f.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// do calls Before and then a step of a change.
func (f FS) do(step, name string, change func() error) error {
	if f.BeforeStep != nil {
		if err := f.BeforeStep(step, name); err != nil {
			return err
		}
	}
	return change()
}

// WriteFile writes a file, or replaces the file or symbolic link with that name.
// Readers see either the old or the new content, never a part of it. The directory must
// exist.
func (f FS) WriteFile(name string, content io.Reader, attr FileAttr) error {
	if f.Overlay != nil {
		return f.overlayWriteFile(name, content, attr, true)
	}
	return f.replaceFile(name, func(temp string) error {
		err := f.writeNewFile(name, temp, content, attr)
		if failed, ok := errors.AsType[*fs.PathError](err); ok && failed.Op == "open" {
			return &fs.PathError{Op: "write a temporary file next to", Path: temp, Err: failed.Err}
		}
		return err
	})
}

// CreateFile writes a new file. It returns [fs.ErrExist] if the name exists. Readers
// may see partial content, but a failed CreateFile leaves no file.
func (f FS) CreateFile(name string, content io.Reader, attr FileAttr) error {
	if f.Overlay != nil {
		return f.overlayWriteFile(name, content, attr, false)
	}
	return f.withHostPath(name, func(at string) error {
		err := f.writeNewFile(name, at, content, attr)
		if err == nil {
			syncDir(filepath.Dir(at))
		}
		return err
	})
}

// replaceFile calls create with a temporary name, and then renames that to name.
func (f FS) replaceFile(name string, create func(temp string) error) error {
	return f.withHostPath(name, func(at string) error {
		temp := filepath.Join(filepath.Dir(at), "."+filepath.Base(at)+"-"+rand.Text()[:8]+tempExt)
		err := create(temp)
		if err == nil {
			err = f.renameAndSync(name, temp, at)
		}
		// Renaming one hard link of a file to another succeeds without removing temp.
		_ = os.Remove(temp)
		return err
	})
}

// writeNewFile writes and syncs a new file. If that fails, it removes the file.
func (f FS) writeNewFile(name, at string, content io.Reader, attr FileAttr) (err error) {
	var file *os.File
	if err := f.do("create", name, func() (err error) {
		file, err = os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	}); err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			_ = os.Remove(at)
		}
	}()
	steps := []struct {
		name string
		do   func() error
	}{
		{"write", func() error { _, err := io.Copy(file, content); return err }},
		{"own", func() error { return setOwnerAndLabel(file, attr) }},
		{"chmod", func() error { return file.Chmod(attr.Mode.Perm()) }},
		{"sync", file.Sync},
	}
	for _, s := range steps {
		if err := f.do(s.name, name, s.do); err != nil {
			return err
		}
	}
	return nil
}

func setOwnerAndLabel(file *os.File, attr FileAttr) error {
	if attr.OwnerFrom != nil && !CopyOwner(file, attr.OwnerFrom) {
		return &fs.PathError{Op: chownOp, Path: file.Name(), Err: fs.ErrPermission}
	}
	return setSELinuxLabel(file, attr.Label)
}

const chownOp = "chown"

// IsOwnerError reports whether WriteFile or CreateFile failed because the process is not
// permitted to give the file to the owner of FileAttr.OwnerFrom.
func IsOwnerError(err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	return ok && failed.Op == chownOp
}

func (f FS) renameAndSync(name, from, to string) error {
	err := f.do("rename", name, func() error { return os.Rename(from, to) })
	if err == nil {
		syncDir(filepath.Dir(to))
	}
	return err
}

// Symlink creates a symbolic link, or replaces the file or link with that name.
func (f FS) Symlink(target, name string) error {
	if f.Overlay != nil {
		return f.overlaySymlink(target, name)
	}
	return f.replaceFile(name, func(temp string) error {
		return f.do("link", name, func() error { return os.Symlink(target, temp) })
	})
}

// HardLink creates a hard link to a file, or replaces the file or link with that name.
func (f FS) HardLink(name, as string) error {
	if f.Overlay != nil {
		return f.overlayHardLink(name, as)
	}
	return f.withHostPath(name, func(from string) error {
		return f.replaceFile(as, func(temp string) error {
			return f.do("link", as, func() error { return os.Link(from, temp) })
		})
	})
}

// Rename renames a file or directory.
func (f FS) Rename(from, to string) error {
	if f.Overlay != nil {
		return f.overlayRename(from, to)
	}
	return f.withHostPath(from, func(from string) error {
		return f.withHostPath(to, func(at string) error { return f.renameAndSync(to, from, at) })
	})
}

// Mkdir creates a directory with the given mode, regardless of the umask. Its parent
// must exist.
func (f FS) Mkdir(name string, mode fs.FileMode) error {
	if f.Overlay != nil {
		return f.overlayMkdir(name, mode)
	}
	return f.withHostPath(name, func(at string) error {
		if err := f.do("mkdir", name, func() error { return os.Mkdir(at, mode) }); err != nil {
			return err
		}
		err := os.Chmod(at, mode)
		syncDir(filepath.Dir(at))
		return err
	})
}

// Remove removes a file, a symbolic link or an empty directory, if it exists.
func (f FS) Remove(name string) error { return f.removeAndSync(name, os.Remove, false) }

// RemoveAll removes a directory and everything in it, if it exists. It does not
// follow symbolic links.
func (f FS) RemoveAll(name string) error { return f.removeAndSync(name, os.RemoveAll, true) }

func (f FS) removeAndSync(name string, remove func(string) error, all bool) (err error) {
	if f.Overlay != nil {
		err = f.overlayRemove(name, all)
	} else {
		err = f.withHostPath(name, func(at string) error {
			return f.do("remove", name, func() error {
				err := remove(at)
				syncDir(filepath.Dir(at))
				return err
			})
		})
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
