// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inroot

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/regcred/regcred/internal/inplace"
)

// Attr is what a file has beside its content.
type Attr struct {
	Mode  fs.FileMode // permissions
	Like  fs.FileInfo // whose owner and group it gets; nil means those of who runs this
	Label string      // of SELinux, as in security.selinux; "" means what the directory gives
}

// temporary ends the names of files that are not in their places yet.
const temporary = ".regcred-new"

// IsTemporary reports whether a file is what a broken write left behind.
func IsTemporary(name string) bool { return path.Ext(name) == temporary }

// step tells the observer of a step.
func (f FS) step(step, name string) error {
	if f.Before == nil {
		return nil
	}
	return f.Before(step, name)
}

// Put writes a file in the place of what is there, with its content whole or
// not at all. The directory must exist; a link of that name is replaced, not
// followed.
func (f FS) Put(name string, content io.Reader, attr Attr) error {
	return f.at(name, func(at string) error {
		temp := filepath.Join(filepath.Dir(at), "."+path.Base(name)+"-"+rand.Text()[:8]+temporary)
		err := f.write(name, temp, content, attr)
		if err == nil {
			err = f.rename(name, temp, at)
		}
		if err != nil {
			_ = os.Remove(temp)
		}
		return err
	})
}

// write writes and syncs a new file.
func (f FS) write(name, temp string, content io.Reader, attr Attr) error {
	if err := f.step("create", name); err != nil {
		return err
	}
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	steps := []struct {
		name string
		make func() error
	}{
		{"write", func() error { _, err := io.Copy(file, content); return err }},
		{"own", func() error { return own(file, attr) }},
		{"chmod", func() error { return file.Chmod(attr.Mode.Perm()) }},
		{"sync", file.Sync},
	}
	for _, s := range steps {
		if err = f.step(s.name, name); err == nil {
			err = s.make()
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, file.Close())
}

// own gives a file the owner and the label that it should have.
func own(file *os.File, attr Attr) error {
	if attr.Like != nil && !inplace.TakeOwner(file, attr.Like) {
		return &fs.PathError{Op: "chown", Path: file.Name(), Err: fs.ErrPermission}
	}
	return setLabel(file, attr.Label)
}

// rename brings a file into its place for good.
func (f FS) rename(name, from, to string) error {
	if err := f.step("rename", name); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	inplace.SyncDir(filepath.Dir(to))
	return nil
}

// Link makes a symbolic link in the place of what is there.
func (f FS) Link(target, name string) error {
	return f.at(name, func(at string) error {
		temp := filepath.Join(filepath.Dir(at), "."+path.Base(name)+"-"+rand.Text()[:8]+temporary)
		if err := f.step("link", name); err != nil {
			return err
		}
		if err := os.Symlink(target, temp); err != nil {
			return err
		}
		err := f.rename(name, temp, at)
		if err != nil {
			_ = os.Remove(temp)
		}
		return err
	})
}

// Same makes a file of two names (a hard link) in the place of what is there.
func (f FS) Same(name, as string) error {
	return f.at(name, func(from string) error {
		return f.at(as, func(at string) error {
			temp := filepath.Join(filepath.Dir(at), "."+path.Base(as)+"-"+rand.Text()[:8]+temporary)
			if err := f.step("link", as); err != nil {
				return err
			}
			if err := os.Link(from, temp); err != nil {
				return err
			}
			err := f.rename(as, temp, at)
			// A rename of a file onto itself does nothing, and says nothing.
			_ = os.Remove(temp)
			return err
		})
	})
}

// Move renames a file or directory.
func (f FS) Move(from, to string) error {
	return f.at(from, func(from string) error {
		return f.at(to, func(at string) error { return f.rename(to, from, at) })
	})
}

// Mkdir makes a directory; its parent must exist.
func (f FS) Mkdir(name string, mode fs.FileMode) error {
	return f.at(name, func(at string) error {
		if err := f.step("mkdir", name); err != nil {
			return err
		}
		if err := os.Mkdir(at, mode); err != nil {
			return err
		}
		err := os.Chmod(at, mode) // whatever the umask
		inplace.SyncDir(filepath.Dir(at))
		return err
	})
}

// Remove removes a file, a link or an empty directory. It is no error if there
// is none.
func (f FS) Remove(name string) error {
	return f.gone(f.at(name, func(at string) error {
		if err := f.step("remove", name); err != nil {
			return err
		}
		err := os.Remove(at)
		inplace.SyncDir(filepath.Dir(at))
		return err
	}))
}

// RemoveAll removes a directory with all that is in it. Links in it are
// removed, not followed.
func (f FS) RemoveAll(name string) error {
	return f.gone(f.at(name, func(at string) error {
		if err := f.step("remove", name); err != nil {
			return err
		}
		err := os.RemoveAll(at)
		inplace.SyncDir(filepath.Dir(at))
		return err
	}))
}

// gone takes it for done if there was nothing.
func (f FS) gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
