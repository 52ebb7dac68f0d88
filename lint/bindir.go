// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"errors"
	"os"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/executable"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/lint/internal/rules"
)

// binDirectory is the directory of the plugins.
type binDirectory struct {
	config  *config.Config
	path    string
	err     error    // the directory cannot be used
	helpers []string // docker credential helpers that are not a provider's plugin
}

func binDirRules() []rules.Rule[*binDirectory] {
	return []rules.Rule[*binDirectory]{
		rules.Error("missing-bin-dir", checkMissingBinDir),
		rules.Warning("writable-by-others", checkWritableBinDir),
		rules.Error("noexec-mount", checkNoexecMount),
		rules.Info("docker-helper-in-bin-dir", checkDockerHelpers),
	}
}

// maxBinDirEntries bounds how much of a directory is read.
const maxBinDirEntries = 4096

func inspectBinDir(c *config.Config, path string) *binDirectory {
	d := &binDirectory{config: c, path: path}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if d.err = err; err != nil {
		return d
	}
	f, err := os.Open(path)
	if err != nil {
		return d // usable without permission to list it
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxBinDirEntries)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "docker-credential-") && !hasProvider(c, e.Name()) {
			d.helpers = append(d.helpers, e.Name())
		}
	}
	return d
}

// hasProvider reports whether c has a provider with this name.
func hasProvider(c *config.Config, name string) bool {
	for i := range c.Providers {
		if c.Providers[i].Name == name {
			return true
		}
	}
	return false
}

func checkMissingBinDir(d *binDirectory) []rules.Result {
	if d.err == nil {
		return nil
	}
	return rules.At(config.Position{File: d.path}, "", "the plugin directory cannot be used (%v), so %s", regularfile.Cause(d.err), hostOfAny(d.config).fails())
}

func checkWritableBinDir(d *binDirectory) []rules.Result {
	if d.err != nil {
		return nil
	}
	who := changeableByOthers(d.path, trustedOwner)
	if who == "" {
		who = writableByOthers(d.path, false)
	}
	if who == "" {
		return nil
	}
	return rules.At(config.Position{File: d.path}, "make the directory and its parents writable only by root", "%s, so other users can change what %s", who, hostOfAny(d.config).runs())
}

func checkNoexecMount(d *binDirectory) []rules.Result {
	if d.err != nil || !executable.Noexec(d.path) {
		return nil
	}
	return rules.At(config.Position{File: d.path}, "use a directory on a file system that allows exec", "the directory is on a file system mounted with noexec, so no plugin in it can run")
}

func checkDockerHelpers(d *binDirectory) (rs []rules.Result) {
	for _, name := range d.helpers {
		rs = append(rs, rules.At(config.Position{File: d.path}, "", "%q is a docker credential helper, which a kubelet cannot use, and no provider refers to it", excerpt.Value(name))...)
	}
	return rs
}
