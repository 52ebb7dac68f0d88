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

	"github.com/regcred/regcred/internal/textfmt"
)

// UntrustedPathError reports that users other than root and the caller can change a path.
type UntrustedPathError struct {
	From string // source of the configuration, as in [Origin]
	Path string
	Who  string // who can change Path, such as "writable by all users"
	Fix  string // shell command that removes the write access
}

func (e *UntrustedPathError) Error() string {
	return fmt.Sprintf("refusing %s: %s is %s", e.From, e.Path, e.Who)
}

// maxSymlinks is the maximum number of symlinks that are followed in a path, as in Linux.
const maxSymlinks = 40

// CheckTrust rejects a configuration if users other than root and the caller can change the
// configuration, the files that refer to it, or the plugin executables. Otherwise these users
// could make root run their programs, because regcred is often run by root. The error is a
// *[HintError]. It usually wraps an *[UntrustedPathError].
//
// CheckTrust checks each directory, symlink and file on each path. It does not check mounts,
// hard links to root's files in directories such as /tmp, or access control lists on NFS or on
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
	for _, p := range slices.Sorted(maps.Keys(parts)) { // parents first, because a fix there affects more files
		info, err := os.Lstat(p)
		if err != nil {
			return fmt.Errorf("refusing %s: it changed while it was being checked: %w", o.From, err)
		}
		if who, fix := writableByOthers(p, info, os.Geteuid(), parts[p]); who != "" {
			found := &UntrustedPathError{From: o.From, Path: p, Who: who, Fix: fix + " " + textfmt.QuoteShellWord(p)}
			return withHint(found, found.Fix+"; or "+override)
		}
	}
	return nil
}

// CheckPathTrust returns an error if users other than root and the caller can change an absolute
// path on this machine, or create a missing part of it. what names it in the error.
func (n Node) CheckPathTrust(path, what string) error {
	parts := map[string]bool{}
	if err := n.collectPathParts(path, parts); err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(parts)) {
		info, err := os.Lstat(p)
		if err != nil {
			return err
		}
		if who, fix := writableByOthers(p, info, os.Geteuid(), parts[p]); who != "" {
			found := &UntrustedPathError{From: what, Path: p, Who: who, Fix: fix + " " + textfmt.QuoteShellWord(p)}
			return withHint(found, found.Fix)
		}
	}
	return nil
}

// filesToTrust returns the absolute paths of the configuration, the files that refer to it, and
// the executables.
func filesToTrust(o *Origin, executables []string) (files []string, err error) {
	files = append([]string{o.Config}, o.SourceFiles...)
	if entries, err := os.ReadDir(o.Config); err == nil {
		// Other users must not be able to add files to the directory.
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

// collectPathParts adds each directory, symlink and file on a path to parts. It follows
// symlinks. The value in parts is true for a directory that does not contain the next part of
// the path, because other users must not be able to create that part.
func (n Node) collectPathParts(path string, parts map[string]bool) error {
	at, rest := n.splitAtTrustedDir(path)
	for links := 0; ; {
		addPathPart(parts, at)
		if len(rest) == 0 {
			return nil
		}
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			parts[at] = true // other code reports missing executables
			return nil
		case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
			return nil // only root or the owner of a checked directory can cause this error
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

// addPathPart adds a path to parts unless parts contains it.
func addPathPart(parts map[string]bool, path string) {
	if !parts[path] {
		parts[path] = false
	}
}

// splitAtTrustedDir splits a path into a trusted directory and the parts below it that must be
// checked. A root directory other than "/" is trusted, because the user has set it.
func (n Node) splitAtTrustedDir(path string) (at string, rest []string) {
	at = filepath.VolumeName(path) + string(filepath.Separator)
	if rel, err := filepath.Rel(n.HostPath("/"), path); n.Root != "" && err == nil && filepath.IsLocal(rel) {
		at, path = n.HostPath("/"), rel
	}
	return at, pathComponents(path)
}
