// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inroot

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	openNonblock = unix.O_NONBLOCK | unix.O_NOCTTY
	openNoFollow = unix.O_NOFOLLOW
)

// withHostPath calls do with a path through which this process can access a file of the node.
// It does not follow a symlink in the last element of name.
func (f FS) withHostPath(name string, do func(at string) error) error {
	abs := filepath.Join("/", name) // not used for this machine's own files, whose names may be relative
	return f.withOpenPath(name, filepath.Dir(abs), unix.O_DIRECTORY, "/"+filepath.Base(abs), do)
}

// withHostPathFollowing is like withHostPath, but also follows a symlink in the last element.
func (f FS) withHostPathFollowing(name string, do func(at string) error) error {
	return f.withOpenPath(name, name, 0, "", do)
}

func (f FS) withOpenPath(name, opened string, flags uint64, rest string, do func(at string) error) error {
	if f.isHostRoot() {
		return f.withNodeName(name, do(f.HostPath(name)))
	}
	file, err := f.openInRoot(opened, unix.O_PATH|flags)
	if err != nil {
		return f.withNodeName(name, err)
	}
	defer file.Close()
	return f.withNodeName(name, do(procFDPath(file)+rest))
}

// procFDPath returns a path to an open file. The path stays valid if the file is renamed.
func procFDPath(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }

// openInRoot opens a file of the node. Absolute symlinks and ".." stay within the node's root
// directory (openat2(2) with RESOLVE_IN_ROOT, Linux 5.6).
func (f FS) openInRoot(name string, flags uint64) (*os.File, error) {
	root, err := unix.Open(f.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: f.Root, Err: err}
	}
	defer unix.Close(root)
	how := &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(root, cmp.Or(strings.TrimPrefix(filepath.Join("/", name), "/"), "."), how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue // interrupted by a signal or a concurrent rename
		case errors.Is(err, unix.ENOSYS):
			return nil, fmt.Errorf("%s: following links inside another root directory requires Linux 5.6 (openat2): run regcred in that directory with chroot", f.Root)
		case err != nil:
			return nil, &fs.PathError{Op: "open", Path: f.HostPath(name), Err: err}
		}
		return os.NewFile(uintptr(fd), f.HostPath(name)), nil
	}
}

// nodeName returns the path on the node of the file to which at refers.
func (f FS) nodeName(at string) (string, error) {
	if f.isHostRoot() {
		return filepath.EvalSymlinks(at)
	}
	real, err := os.Readlink(at)
	if err != nil {
		return "", err
	}
	root, err := filepath.EvalSymlinks(f.Root)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || !filepath.IsLocal(rel) && rel != "." {
		return "", &fs.PathError{Op: "resolve", Path: at, Err: fs.ErrNotExist}
	}
	return filepath.Join("/", rel), nil
}

// WritableError returns an error if a file or directory cannot be changed because the file
// system is read-only, or the file is immutable, is a mount point, has hard links or is signed.
// It does not check permissions. It returns [fs.ErrNotExist] if the file does not exist.
func (f FS) WritableError(dir string) error {
	if f.Overlay != nil {
		f, dir = f.onDisk(), f.existingOnDisk(dir)
	}
	return f.withHostPathFollowing(dir, func(at string) error {
		stat, err := statfs(at)
		if err != nil {
			return err
		}
		if stat.Flags&unix.ST_RDONLY != 0 {
			return &fs.PathError{Op: "write", Path: at, Err: unix.EROFS}
		}
		return f.checkImmutable(at)
	})
}

// checkImmutable returns an error if a file is immutable (chattr(1)), or if a new file with its
// name could not replace it: it is a mount point (Linux 5.8), has hard links, or is signed.
func (f FS) checkImmutable(at string) error {
	var stat unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, at, 0, unix.STATX_TYPE|unix.STATX_NLINK, &stat); err != nil {
		return nil
	}
	regular := stat.Mode&unix.S_IFMT == unix.S_IFREG
	switch {
	case stat.Attributes&unix.STATX_ATTR_IMMUTABLE != 0:
		return &fs.PathError{Op: "write", Path: at, Err: errors.New("the file is immutable; run chattr -i on it first")}
	case stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 && regular:
		return &fs.PathError{Op: "write", Path: at, Err: errors.New("the file is a mount point and cannot be replaced; unmount it first")}
	case stat.Nlink > 1 && regular:
		return &fs.PathError{Op: "write", Path: at, Err: fmt.Errorf("the file has %d names (hard links), and the others would keep the old content; replace it with a copy of itself first", stat.Nlink)}
	case regular && isSigned(at):
		return &fs.PathError{Op: "write", Path: at, Err: errors.New("the file is signed (its attribute security.ima), and a changed file would not be; remove the signature first")}
	}
	return nil
}

// IsNoExec reports whether a directory is on a file system that is mounted noexec.
func (f FS) IsNoExec(dir string) bool {
	if f.Overlay != nil {
		f, dir = f.onDisk(), f.existingOnDisk(dir)
	}
	stat, err := readPath(f.withHostPathFollowing, dir, statfs)
	return err == nil && stat.Flags&unix.ST_NOEXEC != 0
}

// IsVolatile reports whether a directory is on a file system that is in memory.
func (f FS) IsVolatile(dir string) bool {
	if f.Overlay != nil {
		f, dir = f.onDisk(), f.existingOnDisk(dir)
	}
	stat, err := readPath(f.withHostPathFollowing, dir, statfs)
	return err == nil && (stat.Type == unix.TMPFS_MAGIC || uint32(stat.Type) == unix.RAMFS_MAGIC)
}

// FreeBytes returns the number of bytes available in a directory's file system.
func (f FS) FreeBytes(dir string) (bytes uint64, err error) {
	if f.Overlay != nil {
		f, dir = f.onDisk(), f.existingOnDisk(dir)
	}
	stat, err := readPath(f.withHostPathFollowing, dir, statfs)
	return stat.Bavail * uint64(stat.Bsize), err
}

func statfs(at string) (stat unix.Statfs_t, err error) {
	if err := unix.Statfs(at, &stat); err != nil {
		return stat, &fs.PathError{Op: "stat", Path: at, Err: err}
	}
	return stat, nil
}
