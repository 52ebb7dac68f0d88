// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/regcred/regcred/internal/shown"
)

// UntrustedPathError is returned for a path that users other than root and the caller
// can change.
type UntrustedPathError struct {
	From string // source of the path
	Path string
	Who  string // who can change it, such as "writable by all users"
	Fix  string // shell command
}

func (e *UntrustedPathError) Error() string {
	return fmt.Sprintf("refusing %s: %s is %s", e.From, e.Path, e.Who)
}

// maxSymlinks is the maximum number of symbolic links in a path, as in Linux.
const maxSymlinks = 40

// CheckTrust rejects an origin if users other than root and the caller can change its
// configuration, the files that refer to it, or the executables that it names. regcred
// is often run by root, and would execute those users' programs. The error is an
// *[HintError], usually wrapping an *[UntrustedPathError].
//
// CheckTrust checks each directory, symlink and file on each path, so that only root
// and the caller can change what a path refers to. It does not check mounts, hard links
// to root's files in directories such as /tmp, or access control lists on NFS or on
// systems other than Linux.
func (n Node) CheckTrust(o *Origin, executables []string) error {
	config, binDir := n.settingNames()
	override := fmt.Sprintf("set %s and %s to use this configuration anyway", config, binDir)
	files, err := filesToTrust(o, executables)
	if err != nil {
		return err
	}
	parts := map[string]bool{}
	for _, f := range files {
		if err := n.collectPathParts(f, parts); err != nil {
			return withHint(fmt.Errorf("refusing %s: cannot determine who can change it: %w", o.From, err), override)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(parts)) { // parents first, because changing them affects more files
		info, err := os.Lstat(p)
		if err != nil {
			return fmt.Errorf("refusing %s: it changed while it was being checked: %w", o.From, err)
		}
		if who, fix := writableByOthers(p, info, os.Geteuid(), parts[p]); who != "" {
			found := &UntrustedPathError{From: o.From, Path: p, Who: who, Fix: fix + " " + shown.QuoteShellWord(p)}
			return withHint(found, found.Fix+"; or "+override)
		}
	}
	return nil
}

// filesToTrust returns the paths that must be trusted: the configuration, the files
// that refer to it, and the executables.
func filesToTrust(o *Origin, executables []string) (files []string, err error) {
	files = append([]string{o.Config}, o.SourceFiles...)
	if entries, err := os.ReadDir(o.Config); err == nil {
		// Other users must not be able to add files.
		files = append(files, filepath.Join(o.Config, ".none"))
		for _, e := range entries {
			files = append(files, filepath.Join(o.Config, e.Name()))
		}
	}
	for _, name := range executables {
		files = append(files, filepath.Join(o.BinDir, name))
	}
	for i := range files {
		if files[i], err = filepath.Abs(files[i]); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// collectPathParts adds each directory, symlink and file on a path to parts, including
// the targets of symlinks. The value is true for a directory in which the next part is
// missing, because other users must not be able to create that part.
func (n Node) collectPathParts(path string, parts map[string]bool) error {
	at, rest := n.splitTrustedPrefix(path)
	for links := 0; ; {
		addPathPart(parts, at)
		if len(rest) == 0 {
			return nil
		}
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			parts[at] = true // validate and lookups report missing executables
			return nil
		case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
			return nil // only root or the owner of a checked directory can cause this
		case errors.Is(err, syscall.ENOTDIR):
			return nil
		case err != nil:
			return err
		}
		rest = rest[1:]
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		addPathPart(parts, next)
		if links++; links > maxSymlinks {
			return &fs.PathError{Op: "follow", Path: path, Err: errors.New("too many symbolic links")}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(at) + string(filepath.Separator)
		}
		rest = append(pathComponents(target), rest...)
	}
}

// addPathPart adds a part if it is not there yet.
func addPathPart(parts map[string]bool, path string) {
	if !parts[path] {
		parts[path] = false
	}
}

// splitTrustedPrefix splits a path into the parts to check and the directory that
// contains them. A root directory other than "/" was set by the user, so it is trusted.
func (n Node) splitTrustedPrefix(path string) (at string, rest []string) {
	at = filepath.VolumeName(path) + string(filepath.Separator)
	if rel, err := filepath.Rel(n.HostPath("/"), path); n.Root != "" && err == nil && filepath.IsLocal(rel) {
		at, path = n.HostPath("/"), rel
	}
	return at, pathComponents(path)
}
