// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inroot

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Overlay holds changes to a file system that are planned but not made. An [FS] with an
// Overlay reads the files as they would be after the changes. Files that are not changed
// are read from disk.
//
// An Overlay must not be used concurrently.
type Overlay struct {
	files map[string]*overlayFile // by name after resolving symlinks, except in the last element
}

// overlayFile is a new, changed or removed file.
type overlayFile struct {
	mode    fs.FileMode // with type; 0 means that the file is removed
	content []byte      // of a regular file: at most maxFileSize bytes
	size    int64
	target  string // of a symlink
	from    string // file on disk whose content this file has, for hard links and renamed files
}

// NewOverlay returns an Overlay without changes.
func NewOverlay() *Overlay { return &Overlay{files: map[string]*overlayFile{}} }

// removedFile hides a file on disk.
var removedFile = overlayFile{}

// onDisk returns the file system without the overlay.
func (f FS) onDisk() FS {
	f.Overlay = nil
	return f
}

// maxSymlinks limits the number of symlinks that are followed for one name, as in Linux.
const maxSymlinks = 40

// resolvedName is a name after symlinks have been resolved.
type resolvedName struct {
	name   string
	change *overlayFile // nil if the overlay does not change the file
	disk   string       // name of the file on disk that has the content; "" if the overlay has it
}

// childName returns a file of a resolved directory.
func (r resolvedName) childName(o *Overlay, element string) resolvedName {
	c := resolvedName{name: path.Join(r.name, element)}
	if c.change = o.files[c.name]; c.change != nil {
		c.disk = c.change.from
	} else if r.disk != "" {
		c.disk = path.Join(r.disk, element)
	}
	return c
}

// resolveName resolves the symlinks of a name in the overlay and on disk. With follow, it also
// resolves a symlink in the last element. The error is an [fs.ErrNotExist] if a directory
// is missing; the last element may be missing.
func (f FS) resolveName(name string, follow bool) (r resolvedName, err error) {
	rest := splitPath(name)
	r = rootName
	links := 0
	for len(rest) > 0 {
		element := rest[0]
		rest = rest[1:]
		if element == ".." {
			r, err = f.resolveName(path.Dir(r.name), true)
			if err != nil {
				return r, err
			}
			continue
		}
		next := r.childName(f.Overlay, element)
		info, err := f.lstatResolved(next)
		switch {
		case err != nil && len(rest) > 0:
			return r, f.withNodeName(name, err)
		case err != nil:
		case info.Mode().Type() == fs.ModeSymlink && (len(rest) > 0 || follow):
			if links++; links > maxSymlinks {
				return r, &fs.PathError{Op: "resolve", Path: f.HostPath(name), Err: syscall.ELOOP}
			}
			target, err := f.linkTarget(next)
			if err != nil {
				return r, f.withNodeName(name, err)
			}
			if path.IsAbs(target) {
				r = rootName
			}
			rest = append(splitPath(target), rest...)
			continue
		case !info.IsDir() && len(rest) > 0:
			return r, &fs.PathError{Op: "resolve", Path: f.HostPath(name), Err: syscall.ENOTDIR}
		}
		r = next
	}
	return r, nil
}

// rootName is the root directory of the node.
var rootName = resolvedName{name: "/", disk: "/"}

// splitPath returns the elements of a path without empty ones and ".".
func splitPath(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(s string) bool { return s == "" || s == "." })
}

// linkTarget returns the target of a symlink.
func (f FS) linkTarget(r resolvedName) (string, error) {
	if r.disk != "" {
		return f.onDisk().Readlink(r.disk)
	}
	return r.change.target, nil
}

// lstatResolved describes a resolved file.
func (f FS) lstatResolved(r resolvedName) (fs.FileInfo, error) {
	switch {
	case r.change == nil && r.disk != "":
		return f.onDisk().Lstat(r.disk)
	case r.change == nil, r.change.mode == 0:
		return nil, &fs.PathError{Op: "stat", Path: f.HostPath(r.name), Err: fs.ErrNotExist}
	}
	return overlayInfo{path.Base(r.name), r.change}, nil
}

// readChanged reads a file of an overlay.
func readChanged[T any](f FS, name string, follow bool, fromDisk func(FS, string) (T, error), fromOverlay func(resolvedName) (T, error)) (v T, err error) {
	r, err := f.resolveName(name, follow)
	if err == nil {
		_, err = f.lstatResolved(r)
	}
	if err != nil {
		return v, f.withNodeName(name, err)
	}
	if r.disk != "" {
		v, err = fromDisk(f.onDisk(), r.disk)
	} else {
		v, err = fromOverlay(r)
	}
	return v, f.withNodeName(name, err)
}

func (f FS) overlayReadFile(name string, fromDisk func(FS, string) ([]byte, error)) ([]byte, error) {
	return readChanged(f, name, true, fromDisk, func(r resolvedName) ([]byte, error) {
		if r.change.mode.IsDir() {
			return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
		}
		return r.change.content, nil
	})
}

// overlayOpen opens a file that has its content on disk.
func (f FS) overlayOpen(name string) (*os.File, error) {
	return readChanged(f, name, true, FS.Open, func(resolvedName) (*os.File, error) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
	})
}

// overlayAttrOf returns only the mode of a file that is not on disk.
func (f FS) overlayAttrOf(name string) (FileAttr, error) {
	return readChanged(f, name, false, FS.AttrOf, func(r resolvedName) (FileAttr, error) {
		return FileAttr{Mode: r.change.mode}, nil
	})
}

func (f FS) overlayStat(name string, follow bool) (fs.FileInfo, error) {
	r, err := f.resolveName(name, follow)
	if err != nil {
		return nil, err
	}
	info, err := f.lstatResolved(r)
	return info, f.withNodeName(name, err)
}

func (f FS) overlayReadlink(name string) (string, error) {
	return readChanged(f, name, false, FS.Readlink, func(r resolvedName) (string, error) {
		if r.change.mode.Type() != fs.ModeSymlink {
			return "", &fs.PathError{Op: "readlink", Path: name, Err: syscall.EINVAL}
		}
		return r.change.target, nil
	})
}

func (f FS) overlayEvalSymlinks(name string) (string, error) {
	r, err := f.resolveName(name, true)
	if err == nil {
		_, err = f.lstatResolved(r)
	}
	if err != nil {
		return "", f.withNodeName(name, err)
	}
	return r.name, nil
}

func (f FS) overlayReadDir(name string) ([]fs.DirEntry, error) {
	r, err := f.resolveName(name, true)
	if err != nil {
		return nil, err
	}
	info, err := f.lstatResolved(r)
	switch {
	case err != nil:
		return nil, f.withNodeName(name, err)
	case !info.IsDir():
		return nil, &fs.PathError{Op: "read", Path: f.HostPath(name), Err: syscall.ENOTDIR}
	}
	found := map[string]fs.DirEntry{}
	if r.disk != "" {
		list, err := f.onDisk().ReadDir(r.disk)
		if err != nil {
			return nil, f.withNodeName(name, err)
		}
		for _, e := range list {
			found[e.Name()] = e
		}
	}
	for at, change := range f.Overlay.files {
		if path.Dir(at) != r.name {
			continue
		}
		base := path.Base(at)
		if found[base] = fs.FileInfoToDirEntry(overlayInfo{base, change}); change.mode == 0 {
			delete(found, base)
		}
	}
	var list []fs.DirEntry
	for _, n := range slices.Sorted(maps.Keys(found)) {
		list = append(list, found[n])
	}
	return list, nil
}

// existingOnDisk returns the nearest parent on disk of a name, or the name itself.
func (f FS) existingOnDisk(name string) string {
	for disk := f.onDisk(); ; name = path.Dir(name) {
		if _, err := disk.Stat(name); err == nil || name == "/" {
			return name
		}
	}
}

// recordChange records a change of a file whose directory exists.
func (f FS) recordChange(step, name string, change func(at resolvedName) (*overlayFile, error)) error {
	at, err := f.resolveName(name, false)
	if err != nil {
		return err
	}
	err = f.runStep(step, name, func() error {
		next, err := change(at)
		if err == nil {
			f.Overlay.files[at.name] = next
		}
		return err
	})
	return f.withNodeName(name, err)
}

func (f FS) overlayWriteFile(name string, content io.Reader, attr FileAttr, replace bool) error {
	return f.recordChange("write", name, func(at resolvedName) (*overlayFile, error) {
		info, err := f.lstatResolved(at)
		switch {
		case err == nil && !replace:
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
		case err == nil && info.IsDir():
			return nil, &fs.PathError{Op: "rename", Path: name, Err: fs.ErrExist}
		}
		var kept bytes.Buffer
		size, err := io.Copy(&kept, io.LimitReader(content, maxFileSize))
		if err != nil {
			return nil, err
		}
		more, err := io.Copy(io.Discard, content)
		return &overlayFile{mode: attr.Mode.Perm(), content: kept.Bytes(), size: size + more}, err
	})
}

func (f FS) overlaySymlink(target, name string) error {
	return f.recordChange("link", name, func(at resolvedName) (*overlayFile, error) {
		if info, err := f.lstatResolved(at); err == nil && info.IsDir() {
			return nil, &fs.PathError{Op: "rename", Path: name, Err: fs.ErrExist}
		}
		return &overlayFile{mode: fs.ModeSymlink | 0o777, target: target}, nil
	})
}

// overlayHardLink gives a file a second name.
func (f FS) overlayHardLink(name, as string) error {
	from, err := f.resolveExisting(name)
	if err != nil {
		return err
	}
	return f.recordChange("link", as, func(resolvedName) (*overlayFile, error) { return from.asChange(f) })
}

// resolveExisting resolves the name of a file that exists.
func (f FS) resolveExisting(name string) (r resolvedName, err error) {
	if r, err = f.resolveName(name, false); err == nil {
		_, err = f.lstatResolved(r)
	}
	return r, f.withNodeName(name, err)
}

// asChange returns a change with the content of an existing file.
func (r resolvedName) asChange(f FS) (*overlayFile, error) {
	if r.change != nil {
		return r.change, nil
	}
	info, err := f.onDisk().Lstat(r.disk)
	if err != nil {
		return nil, err
	}
	return &overlayFile{mode: info.Mode(), size: info.Size(), from: r.disk}, nil
}

func (f FS) overlayRename(from, to string) error {
	r, err := f.resolveExisting(from)
	if err != nil {
		return err
	}
	return f.recordChange("rename", to, func(at resolvedName) (*overlayFile, error) {
		if strings.HasPrefix(at.name, r.name+"/") {
			return nil, &fs.PathError{Op: "rename", Path: from, Err: fs.ErrInvalid}
		}
		moved, err := r.asChange(f)
		if err != nil {
			return nil, err
		}
		for name, change := range f.Overlay.files {
			if rest, ok := strings.CutPrefix(name, r.name+"/"); ok {
				f.Overlay.files[path.Join(at.name, rest)] = change
				delete(f.Overlay.files, name)
			}
		}
		f.Overlay.files[r.name] = &removedFile
		return moved, nil
	})
}

func (f FS) overlayMkdir(name string, mode fs.FileMode) error {
	return f.recordChange("mkdir", name, func(at resolvedName) (*overlayFile, error) {
		if _, err := f.lstatResolved(at); err == nil {
			return nil, &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
		}
		return &overlayFile{mode: fs.ModeDir | mode}, nil
	})
}

// overlayRemove removes a file, and with all also a directory that is not empty.
func (f FS) overlayRemove(name string, all bool) error {
	return f.recordChange("remove", name, func(at resolvedName) (*overlayFile, error) {
		info, err := f.lstatResolved(at)
		if err != nil {
			return nil, err
		}
		if info.IsDir() && !all {
			if list, err := f.ReadDir(at.name); err != nil || len(list) > 0 {
				return nil, &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
			}
		}
		for other := range f.Overlay.files {
			if strings.HasPrefix(other, at.name+"/") {
				delete(f.Overlay.files, other)
			}
		}
		return &removedFile, nil
	})
}

// overlayInfo describes a file of an overlay.
type overlayInfo struct {
	name string
	file *overlayFile
}

func (i overlayInfo) Name() string       { return i.name }
func (i overlayInfo) Size() int64        { return i.file.size }
func (i overlayInfo) Mode() fs.FileMode  { return i.file.mode }
func (i overlayInfo) ModTime() time.Time { return time.Time{} }
func (i overlayInfo) IsDir() bool        { return i.file.mode.IsDir() }
func (i overlayInfo) Sys() any           { return nil }
