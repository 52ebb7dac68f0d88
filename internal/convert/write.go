// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/regularfile"
)

// ReplacedFile is a file that [Replace] changed.
type ReplacedFile struct {
	Name         string
	Backup       string // path of a copy of the previous file
	OwnerChanged bool   // the owner could not be kept, so only the caller can read the file
}

// Replace replaces the files that changed, each atomically, and keeps a backup of each. A
// new file has the mode of the previous file and, if the caller may set it, the owner. If
// anything fails, all files are restored. Symbolic links are rejected, because another user
// may own their targets.
func Replace(files []File) ([]ReplacedFile, error) {
	list, err := backUpFiles(files)
	if err == nil {
		err = replaceFiles(list)
	}
	if err != nil {
		return nil, errors.Join(err, restoreFiles(list))
	}
	done := make([]ReplacedFile, len(list))
	for i, r := range list {
		done[i] = r.ReplacedFile
	}
	return done, nil
}

// replacement is a file that [Replace] is about to replace.
type replacement struct {
	ReplacedFile
	data         []byte
	previousInfo inroot.FileAttr
	replaced     bool
}

// backUpFiles makes backups of all files that changed.
func backUpFiles(files []File) (list []*replacement, err error) {
	for _, f := range files {
		if !f.IsChanged() {
			continue
		}
		r := &replacement{ReplacedFile: ReplacedFile{Name: f.Name}, data: f.Data}
		if r.previousInfo, err = checkUnchanged(f); err != nil {
			return list, err
		}
		list = append(list, r)
		if err := r.writeBackup(f.Source); err != nil {
			return list, fmt.Errorf("back up %s: %w", f.Name, err)
		}
	}
	return list, nil
}

// checkUnchanged returns a file's attributes. It returns an error if the file is no longer the
// one that was converted, or if it cannot be replaced.
func checkUnchanged(f File) (attr inroot.FileAttr, err error) {
	if attr, err = (inroot.FS{}).AttrOf(f.Name); err != nil {
		return attr, err
	}
	if attr.Mode&fs.ModeSymlink != 0 {
		return attr, fmt.Errorf("%s is a symbolic link and will not be replaced; convert the file that the link points to, or write the converted file to another path", f.Name)
	}
	data, err := regularfile.Read(context.Background(), f.Name, int64(len(f.Source)))
	_, longer := errors.AsType[*regularfile.TooLargeError](err)
	if err != nil && !longer {
		return attr, err
	}
	if longer || !bytes.Equal(data, f.Source) {
		return attr, fmt.Errorf("%s has changed since it was read: convert it again", f.Name)
	}
	return attr, inroot.FS{}.WritableError(f.Name)
}

// writeBackup writes a backup under a new name. The name ends in .bak or a number, so the
// kubelet does not read it in a configuration directory.
func (r *replacement) writeBackup(data []byte) error {
	const most = 1000
	for i := range most {
		name := r.Name + ".bak"
		if i > 0 {
			name += "." + strconv.Itoa(i)
		}
		_, err := writeWithAttr(inroot.FS{}.CreateFile, name, data, r.previousInfo)
		if !errors.Is(err, fs.ErrExist) {
			if err == nil {
				r.Backup = name
			}
			return err
		}
	}
	return fmt.Errorf("%d backups already exist", most)
}

// writeWithAttr writes a file with the attributes of another file. foreign
// reports that the owner could not be kept.
func writeWithAttr(write func(string, io.Reader, inroot.FileAttr) error, name string, data []byte, attr inroot.FileAttr) (foreign bool, err error) {
	err = write(name, bytes.NewReader(data), attr)
	if !inroot.IsOwnerError(err) {
		return false, err
	}
	// Drop the permissions of group and others, because the file now has a different group.
	return true, write(name, bytes.NewReader(data), inroot.FileAttr{Mode: attr.Mode & 0o700})
}

func replaceFiles(list []*replacement) (err error) {
	for _, r := range list {
		if r.OwnerChanged, err = writeWithAttr(inroot.FS{}.WriteFile, r.Name, r.data, r.previousInfo); err != nil {
			return fmt.Errorf("replace %s: %w", r.Name, err)
		}
		r.replaced = true
	}
	return nil
}

// restoreFiles restores the files that were replaced, and removes the other backups.
func restoreFiles(list []*replacement) error {
	var errs []error
	for _, r := range slices.Backward(list) {
		switch {
		case r.replaced:
			if err := os.Rename(r.Backup, r.Name); err != nil {
				errs = append(errs, fmt.Errorf("%s remains converted; its previous content is in %s: %w", r.Name, r.Backup, err))
			}
		case r.Backup != "":
			_ = os.Remove(r.Backup)
		}
	}
	return errors.Join(errs...)
}

// CreateFile writes a new file that only its owner can read. It returns [fs.ErrExist]
// if the name exists, even as a symbolic link.
func CreateFile(name string, data []byte) error {
	return inroot.FS{}.CreateFile(name, bytes.NewReader(data), inroot.FileAttr{Mode: 0o600})
}

// CreateDir writes files into a directory, which it creates if necessary. It rejects a
// directory that contains configuration files, because the kubelet would merge them
// with the new ones. If anything fails, it removes what it wrote.
func CreateDir(dir string, files []File) error {
	err := os.Mkdir(dir, 0o755)
	created := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := checkNoConfigFiles(dir); err != nil {
		return err
	}
	for i, f := range files {
		if err := CreateFile(filepath.Join(dir, f.baseName()), f.Data); err != nil {
			for _, f := range files[:i] {
				_ = os.Remove(filepath.Join(dir, f.baseName()))
			}
			if created {
				_ = os.Remove(dir)
			}
			return err
		}
	}
	return nil
}

// checkNoConfigFiles rejects a directory that contains files that the kubelet would
// read.
func checkNoConfigFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name())) {
			return fmt.Errorf("%s already contains %s, which the kubelet would merge with the new files; choose another directory", dir, e.Name())
		}
	}
	return nil
}
