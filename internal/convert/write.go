// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/regcred/regcred/internal/inplace"
	"github.com/regcred/regcred/internal/regularfile"
)

// Replaced is a file that [Replace] changed.
type Replaced struct {
	Name    string
	Backup  string // has what Name had
	Foreign bool   // the owner could not be kept: it is the caller's now, who alone may read it
}

// Replace puts files in place of those of their names, as far as they differ.
// Each is there whole or not at all, with the mode and, where the caller may
// set it, the owner of the one before, and that one stays as a backup of a new
// name. If something fails, all are as they were before.
//
// A symbolic link is refused: what it leads to may be anybody's.
func Replace(files []File) ([]Replaced, error) {
	swaps, err := prepare(files)
	if err == nil {
		err = commit(swaps)
	}
	if err != nil {
		return nil, errors.Join(err, undo(swaps))
	}
	list := make([]Replaced, len(swaps))
	for i, s := range swaps {
		list[i] = s.Replaced
	}
	return list, nil
}

// swap is one file on its way into its place.
type swap struct {
	Replaced
	temp string // what is to be in Name; "" when it is
	done bool
}

// prepare writes all that is new beside the files that it is for.
func prepare(files []File) (swaps []*swap, err error) {
	for _, f := range files {
		if !f.Changed() {
			continue
		}
		s := &swap{Replaced: Replaced{Name: f.Name}}
		swaps = append(swaps, s)
		if err := s.prepare(f); err != nil {
			return swaps, err
		}
	}
	return swaps, nil
}

func (s *swap) prepare(f File) error {
	info, err := current(f)
	if err != nil {
		return err
	}
	dir, base := filepath.Split(f.Name)
	// A kubelet that starts now must not read it, so its name does not end as
	// that of a configuration file does.
	temp, err := os.CreateTemp(dir, "."+base+".new-*")
	if err != nil {
		return fmt.Errorf("write a temporary file next to %s: %w", f.Name, err)
	}
	s.temp = temp.Name()
	if s.Foreign, err = fill(temp, f.Data, info); err != nil {
		return fmt.Errorf("write a temporary file next to %s: %w", f.Name, err)
	}
	if err := s.backUp(f.Source, info); err != nil {
		return fmt.Errorf("back up %s: %w", f.Name, err)
	}
	return nil
}

// current checks that the file is the one that was converted.
func current(f File) (fs.FileInfo, error) {
	info, err := os.Lstat(f.Name)
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%s is a symbolic link and will not be replaced; convert its target, or write the result elsewhere", f.Name)
	}
	data, err := regularfile.Read(context.Background(), f.Name, int64(len(f.Source)))
	_, longer := errors.AsType[*regularfile.TooLargeError](err)
	if err != nil && !longer {
		return nil, err
	}
	if longer || !bytes.Equal(data, f.Source) {
		return nil, fmt.Errorf("%s has changed since it was read: convert it again", f.Name)
	}
	return info, nil
}

// backUp writes a copy under a name that no file has. In a directory of
// configurations a kubelet does not read it, for its name's end.
func (s *swap) backUp(data []byte, info fs.FileInfo) error {
	const most = 1000
	for i := range most {
		name := s.Name + ".bak"
		if i > 0 {
			name += "." + strconv.Itoa(i)
		}
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		s.Backup = name
		_, err = fill(file, data, info)
		return err
	}
	return fmt.Errorf("%d backups already exist", most)
}

// fill writes a file out and closes it. It gets mode and owner of like, if
// that is given; foreign says that the owner could not be kept.
func fill(file *os.File, data []byte, like fs.FileInfo) (foreign bool, err error) {
	defer file.Close()
	if like != nil {
		mode := like.Mode().Perm()
		if foreign = !inplace.TakeOwner(file, like); foreign {
			// Group and others would not be those that the mode is about.
			mode &= 0o700
		}
		if err := file.Chmod(mode); err != nil {
			return foreign, err
		}
	}
	if _, err := file.Write(data); err != nil {
		return foreign, err
	}
	if err := file.Sync(); err != nil {
		return foreign, err
	}
	return foreign, file.Close()
}

// commit puts the new files into their places, one after the other.
func commit(swaps []*swap) error {
	for _, s := range swaps {
		if err := os.Rename(s.temp, s.Name); err != nil {
			return fmt.Errorf("replace %s: %w", s.Name, err)
		}
		s.done = true
		inplace.SyncDir(filepath.Dir(s.Name))
	}
	return nil
}

// undo leaves everything as it was. A backup that is the only copy stays.
func undo(swaps []*swap) error {
	var errs []error
	for _, s := range slices.Backward(swaps) {
		if s.done {
			if err := os.Rename(s.Backup, s.Name); err != nil {
				errs = append(errs, fmt.Errorf("%s remains converted; its previous content is in %s: %w", s.Name, s.Backup, err))
			}
			continue
		}
		for _, name := range []string{s.temp, s.Backup} {
			if name != "" {
				_ = os.Remove(name) // it does no harm, and the cause has been told
			}
		}
	}
	return errors.Join(errs...)
}

// Create writes a new file, for its owner alone. A file that exists is an
// error ([fs.ErrExist]), and so is a symbolic link.
func Create(name string, data []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := fill(file, data, nil); err != nil {
		_ = os.Remove(name)
		return err
	}
	return nil
}

// CreateDir writes files into a directory, which it makes if it does not
// exist. One that has configuration files is refused, since a kubelet would
// merge these with the new ones. If something fails, nothing stays.
func CreateDir(dir string, files []File) (err error) {
	made := false
	switch err := os.Mkdir(dir, 0o755); {
	case err == nil:
		made = true
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	if err := withoutConfigs(dir); err != nil {
		return err
	}
	var written []string
	for _, f := range files {
		name := filepath.Join(dir, f.base())
		if err = Create(name, f.Data); err != nil {
			break
		}
		written = append(written, name)
	}
	if err == nil {
		inplace.SyncDir(dir)
		return nil
	}
	for _, name := range written {
		_ = os.Remove(name)
	}
	if made {
		_ = os.Remove(dir)
	}
	return err
}

// withoutConfigs refuses a directory that a kubelet would find configuration
// files in.
func withoutConfigs(dir string) error {
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
