// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Untrusted is a path that others than root and the caller may change.
type Untrusted struct {
	From string // the origin that has it
	Path string
	Who  string // who may change it: "writable by everybody"
	Mend string // the command that ends it
}

func (e *Untrusted) Error() string {
	return fmt.Sprintf("refusing %s: %s is %s", e.From, e.Path, e.Who)
}

// CheckTrust refuses an origin that others than root and the caller may
// change, with the executables of these names: regcred, often run by root,
// would execute what they put there. The configuration was read before, but
// nothing in it was run. The error is an *[Error] of an *[Untrusted].
func (n Node) CheckTrust(o *Origin, executables []string) error {
	paths, err := n.trustedPaths(o, executables)
	if err != nil {
		return err
	}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			continue // a missing executable is a matter for validate and the lookup
		}
		if who, mend := writableByOthers(info, os.Geteuid()); who != "" {
			found := &Untrusted{From: o.From, Path: p, Who: who, Mend: mend + " " + p}
			return withHint(found, found.Mend+"; or give --config and --bin-dir to use it nevertheless")
		}
	}
	return nil
}

// trustedPaths lists the configuration, what names it, the executables, and
// all their parents, as named and as symbolic links resolve.
func (n Node) trustedPaths(o *Origin, executables []string) ([]string, error) {
	files := append([]string{o.Config}, o.Via...)
	if entries, err := os.ReadDir(o.Config); err == nil {
		for _, e := range entries {
			files = append(files, filepath.Join(o.Config, e.Name()))
		}
	}
	for _, name := range executables {
		files = append(files, filepath.Join(o.BinDir, name))
	}
	var paths []string
	for _, f := range files {
		abs, err := filepath.Abs(f)
		if err != nil {
			return nil, err
		}
		paths = append(paths, n.withParents(abs)...)
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			paths = append(paths, n.withParents(real)...)
		}
	}
	slices.Sort(paths) // parents first, so that the widest hole is named
	return slices.Compact(paths), nil
}

func (n Node) withParents(p string) []string {
	root := n.host("/")
	var list []string
	for p != root && p != filepath.Dir(p) {
		list = append(list, p)
		p = filepath.Dir(p)
	}
	return append(list, p)
}
