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

// Untrusted is a path that others than root and the caller may change.
type Untrusted struct {
	From string // the origin that has it
	Path string
	Who  string // who may change it: "writable by all users"
	Mend string // the command that ends it, to be copied into a shell
}

func (e *Untrusted) Error() string {
	return fmt.Sprintf("refusing %s: %s is %s", e.From, e.Path, e.Who)
}

// maxLinks is how many symbolic links a path may lead through, as in Linux.
const maxLinks = 40

// CheckTrust refuses an origin that others than root and the caller may
// change, with the executables of these names: regcred, often run by root,
// would execute what they put there. The configuration was read before, but
// nothing in it was run. The error is an *[Error], mostly of an *[Untrusted].
//
// Each part of each path is looked at: directories, links and whose they are,
// what those lead to, and the files. Nobody but root and the caller could
// then change what a path means before it is used. Not looked at are mounts,
// hard links that others made to root's files in a directory as /tmp, access
// control lists of other systems than Linux and of NFS, and what root itself
// may do elsewhere.
func (n Node) CheckTrust(o *Origin, executables []string) error {
	config, binDir := n.by()
	nevertheless := fmt.Sprintf("set %s and %s to use this configuration anyway", config, binDir)
	files, err := trusted(o, executables)
	if err != nil {
		return err
	}
	parts := map[string]bool{}
	for _, f := range files {
		if err := n.walk(f, parts); err != nil {
			return withHint(fmt.Errorf("refusing %s: cannot determine who can change it: %w", o.From, err), nevertheless)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(parts)) { // parents first, so that the widest hole is named
		info, err := os.Lstat(p)
		if err != nil {
			return fmt.Errorf("refusing %s: it changed while it was being checked: %w", o.From, err)
		}
		if who, mend := writableByOthers(p, info, os.Geteuid(), parts[p]); who != "" {
			found := &Untrusted{From: o.From, Path: p, Who: who, Mend: mend + " " + shown.ShellWord(p)}
			return withHint(found, found.Mend+"; or "+nevertheless)
		}
	}
	return nil
}

// trusted lists the configuration, what names it, and the executables.
func trusted(o *Origin, executables []string) (files []string, err error) {
	files = append([]string{o.Config}, o.Via...)
	if entries, err := os.ReadDir(o.Config); err == nil {
		// Also a file that is not there yet.
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

// walk adds each part of a path: the directories from the root on, links, and
// all that those lead to. What is true in parts is a directory without the next
// part, which nobody else may put there.
func (n Node) walk(path string, parts map[string]bool) error {
	at, rest := n.begin(path)
	for links := 0; ; {
		add(parts, at)
		if len(rest) == 0 {
			return nil
		}
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			parts[at] = true // a missing executable is a matter for validate and the lookup
			return nil
		case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
			return nil // a directory that has been looked at keeps us out, and so it will
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
		add(parts, next)
		if links++; links > maxLinks {
			return &fs.PathError{Op: "follow", Path: path, Err: errors.New("too many symbolic links")}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(at) + string(filepath.Separator)
		}
		rest = append(components(target), rest...)
	}
}

// add adds a part unless it is there.
func add(parts map[string]bool, path string) {
	if !parts[path] {
		parts[path] = false
	}
}

// begin splits a path into where it is looked at from on, and its parts: a
// root directory that is not "/" was given, and so is not doubted.
func (n Node) begin(path string) (at string, rest []string) {
	at = filepath.VolumeName(path) + string(filepath.Separator)
	if rel, err := filepath.Rel(n.host("/"), path); n.Root != "" && err == nil && filepath.IsLocal(rel) {
		at, path = n.host("/"), rel
	}
	return at, components(path)
}
