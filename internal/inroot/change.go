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

// FileAttr holds the attributes for a new file.
type FileAttr struct {
	Mode      fs.FileMode // permissions
	OwnerFrom fs.FileInfo // file whose owner and group are copied; nil means the process's user and group

	// Extended contains extended attributes: the access control list, the SELinux label, file
	// capabilities and others. If it is nil, the file gets the defaults of its directory.
	Extended map[string]string
}

// AttrOf returns the attributes of a file, for a file that replaces it. It follows no symlink.
// Compare [FS.WritableError], which reports attributes that a new file cannot have.
func (f FS) AttrOf(name string) (attr FileAttr, err error) {
	if f.Overlay != nil {
		return f.overlayAttrOf(name)
	}
	if attr.OwnerFrom, err = f.Lstat(name); err == nil {
		attr.Mode = attr.OwnerFrom.Mode()
		attr.Extended, err = readPath(f.withHostPath, name, extendedAttrs)
	}
	return attr, err
}

// tempExt is the extension of temporary files, which are renamed when they are complete. No
// program reads files with this extension as configuration.
const tempExt = ".regcred-new"

// IsTemporary reports whether name is the name of a temporary file, which may be left over from
// an interrupted write.
func IsTemporary(name string) bool { return path.Ext(name) == tempExt }

// tempPrefix returns how the names of temporary files for the file base begin. With the rest of
// the name they have at most 255 bytes, the limit of Linux.
func tempPrefix(base string) string {
	const maxBase = 255 - len("..") - tempRandom - len(tempExt)
	return "." + base[:min(len(base), maxBase)] + "-"
}

const tempRandom = 8 // random characters in the name of a temporary file

// RemoveTempFiles removes temporary files that interrupted writes of the file name left behind.
// The caller must hold a lock that all writers of the file take.
func (f FS) RemoveTempFiles(name string) {
	dir, base := filepath.Split(name)
	_ = f.removeTemp(dir, tempPrefix(base))
}

// RemoveAllTempFiles removes all temporary files in a directory, if the directory exists. As for
// [FS.RemoveTempFiles], the caller must hold a lock.
func (f FS) RemoveAllTempFiles(dir string) error { return f.removeTemp(dir, "") }

func (f FS) removeTemp(dir, prefix string) (err error) {
	entries, _ := f.ReadDir(dir)
	for _, e := range entries {
		if IsTemporary(e.Name()) && strings.HasPrefix(e.Name(), prefix) {
			err = cmp.Or(err, f.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// runStep calls BeforeStep and then runs a step of a change.
func (f FS) runStep(step, name string, change func() error) error {
	if f.BeforeStep != nil {
		if err := f.BeforeStep(step, name); err != nil {
			return err
		}
	}
	return change()
}

// WriteFile atomically writes or replaces a file. It replaces a symlink with that name instead
// of following it. The directory must exist.
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

// CreateFile writes a new file. It returns [fs.ErrExist] if name exists. Readers may see
// partial content. If CreateFile fails, it removes the file.
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

// replaceFile calls create with a temporary name, and then renames the temporary file to name.
func (f FS) replaceFile(name string, create func(temp string) error) error {
	return f.withHostPath(name, func(at string) error {
		temp := tempName(at)
		err := create(temp)
		if err == nil {
			err = f.renameAndSync(name, temp, at)
		}
		// If both names are hard links to the same file, Rename succeeds but does not remove
		// temp.
		_ = os.Remove(temp)
		return err
	})
}

// tempName returns a new temporary name in the directory of a file.
func tempName(at string) string {
	return filepath.Join(filepath.Dir(at), tempPrefix(filepath.Base(at))+rand.Text()[:tempRandom]+tempExt)
}

// writeNewFile writes and syncs a new file. If a step fails, it removes the file.
func (f FS) writeNewFile(name, at string, content io.Reader, attr FileAttr) (err error) {
	var file *os.File
	if err := f.runStep("create", name, func() (err error) {
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
		{"own", func() error { return setOwner(file, attr) }},
		{"chmod", func() error { return file.Chmod(attr.Mode.Perm()) }},
		{"sync", file.Sync},
	}
	for _, s := range steps {
		if err := f.runStep(s.name, name, s.do); err != nil {
			return err
		}
	}
	return nil
}

// setOwner sets a file's owner, and then its extended attributes, because a change of the owner
// removes file capabilities.
func setOwner(file *os.File, attr FileAttr) error {
	if attr.OwnerFrom != nil && !CopyOwner(file, attr.OwnerFrom) {
		return &fs.PathError{Op: chownOp, Path: file.Name(), Err: fs.ErrPermission}
	}
	if attr.Extended == nil {
		return nil
	}
	return setExtendedAttrs(file, attr.Extended)
}

const chownOp = "chown"

// IsOwnerError reports whether WriteFile or CreateFile failed because this process may not
// change the file's owner to the owner of FileAttr.OwnerFrom.
func IsOwnerError(err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	return ok && failed.Op == chownOp
}

func (f FS) renameAndSync(name, from, to string) error {
	err := f.runStep("rename", name, func() error {
		if f.CheckOld != nil {
			return renameChecked(from, to, f.CheckOld)
		}
		return os.Rename(from, to)
	})
	if err == nil {
		syncDir(filepath.Dir(to))
	}
	return err
}

// Symlink creates a symlink. It replaces an existing file or symlink with that name.
func (f FS) Symlink(target, name string) error {
	if f.Overlay != nil {
		return f.overlaySymlink(target, name)
	}
	return f.replaceFile(name, func(temp string) error {
		return f.runStep("link", name, func() error { return os.Symlink(target, temp) })
	})
}

// HardLink creates a hard link to a file. It replaces an existing file or symlink with that
// name.
func (f FS) HardLink(name, as string) error {
	if f.Overlay != nil {
		return f.overlayHardLink(name, as)
	}
	return f.withHostPath(name, func(from string) error {
		return f.replaceFile(as, func(temp string) error {
			return f.runStep("link", as, func() error { return os.Link(from, temp) })
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

// Mkdir creates a directory with exactly the given mode, whatever the umask is. The parent
// directory must exist.
func (f FS) Mkdir(name string, mode fs.FileMode) error {
	if f.Overlay != nil {
		return f.overlayMkdir(name, mode)
	}
	return f.withHostPath(name, func(at string) error {
		if err := f.runStep("mkdir", name, func() error { return os.Mkdir(at, mode) }); err != nil {
			return err
		}
		err := os.Chmod(at, mode)
		syncDir(filepath.Dir(at))
		return err
	})
}

// Remove removes a file, a symlink or an empty directory. It returns nil if name does not
// exist.
func (f FS) Remove(name string) error {
	return f.removeAndSync(name, func(at string) error {
		if f.CheckOld != nil {
			return removeChecked(tempName(at), at, f.CheckOld)
		}
		return os.Remove(at)
	}, false)
}

// RemoveAll removes a directory and everything in it. It does not follow symlinks. It returns
// nil if name does not exist.
func (f FS) RemoveAll(name string) error { return f.removeAndSync(name, os.RemoveAll, true) }

func (f FS) removeAndSync(name string, remove func(string) error, all bool) (err error) {
	if f.Overlay != nil {
		err = f.overlayRemove(name, all)
	} else {
		err = f.withHostPath(name, func(at string) error {
			return f.runStep("remove", name, func() error {
				err := remove(at)
				syncDir(filepath.Dir(at))
				return err
			})
		})
	}
	if IsMissing(err) {
		return nil
	}
	return err
}
