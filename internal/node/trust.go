// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/regcred/regcred"
)

// checkTrust refuses a discovered location that others than root and the
// caller may change: regcred, often run by root, would execute what they put
// there. The configuration was read before, but nothing in it was run.
func (a *app) checkTrust(o *origin, cfg *regcred.Config) error {
	paths, err := a.trustedPaths(o, cfg)
	if err != nil {
		return err
	}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			continue // a missing executable is a matter for validate and the lookup
		}
		if who, mend := writableByOthers(info, os.Geteuid()); who != "" {
			return withHint(fmt.Errorf("refusing %s: %s is %s", o.from, p, who),
				fmt.Sprintf("%s %s; or give --config and --bin-dir to use it nevertheless", mend, p))
		}
	}
	return nil
}

// trustedPaths lists the configuration, what names it, the executables, and
// all their parents, as named and as symbolic links resolve.
func (a *app) trustedPaths(o *origin, cfg *regcred.Config) ([]string, error) {
	files := append([]string{o.config}, o.via...)
	if entries, err := os.ReadDir(o.config); err == nil {
		for _, e := range entries {
			files = append(files, filepath.Join(o.config, e.Name()))
		}
	}
	for _, p := range cfg.Providers {
		files = append(files, filepath.Join(o.binDir, p.Name))
	}
	var paths []string
	for _, f := range files {
		abs, err := filepath.Abs(f)
		if err != nil {
			return nil, err
		}
		paths = append(paths, a.withParents(abs)...)
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			paths = append(paths, a.withParents(real)...)
		}
	}
	slices.Sort(paths) // parents first, so that the widest hole is named
	return slices.Compact(paths), nil
}

func (a *app) withParents(p string) []string {
	root := filepath.Clean(a.root)
	var list []string
	for p != root && p != filepath.Dir(p) {
		list = append(list, p)
		p = filepath.Dir(p)
	}
	return append(list, p)
}
