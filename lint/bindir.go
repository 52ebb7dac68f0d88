// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"errors"
	"os"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/executable"
	"github.com/regcred/regcred/internal/regularfile"
)

// binDirectory is the directory of the executables, as found.
type binDirectory struct {
	config  *config.Config
	path    string
	err     error    // it cannot be used
	helpers []string // docker credential helpers in it that no provider names
}

func binDirRules() []rule[*binDirectory] {
	return []rule[*binDirectory]{
		{"missing-bin-dir", finding.SeverityError, ruleMissingBinDir},
		{"writable-bin-dir", finding.SeverityWarning, ruleWritableBinDir},
		{"noexec-mount", finding.SeverityError, ruleNoexecMount},
		{"docker-helper-in-bin-dir", finding.SeverityInfo, ruleDockerHelperInBinDir},
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
		return d // a directory that may not be listed can still be used
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxBinDirEntries)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "docker-credential-") && !names(c, e.Name()) {
			d.helpers = append(d.helpers, e.Name())
		}
	}
	return d
}

// names reports whether c has a provider of that name.
func names(c *config.Config, name string) bool {
	for i := range c.Providers {
		if c.Providers[i].Name == name {
			return true
		}
	}
	return false
}

func ruleMissingBinDir(d *binDirectory) []remark {
	if d.err == nil {
		return nil
	}
	return inFile(d.path, 0, "", "the plugin directory cannot be used (%v), so %s", regularfile.Cause(d.err), readerOfAny(d.config).fails())
}

func ruleWritableBinDir(d *binDirectory) []remark {
	if d.err != nil {
		return nil
	}
	who := tamperable(d.path, trustedOwner)
	if who == "" {
		who = writableByOthers(d.path, false)
	}
	if who == "" {
		return nil
	}
	return inFile(d.path, 0, "make the directory and its parents writable only by root", "%s, so other users can change what %s", who, readerOfAny(d.config).runs())
}

func ruleNoexecMount(d *binDirectory) []remark {
	if d.err != nil || !executable.Noexec(d.path) {
		return nil
	}
	return inFile(d.path, 0, "use a directory on a file system that allows exec", "the directory is on a file system mounted with noexec, so no plugin in it can run")
}

func ruleDockerHelperInBinDir(d *binDirectory) (rs []remark) {
	for _, name := range d.helpers {
		rs = append(rs, inFile(d.path, 0, "", "%q is a docker credential helper, which a kubelet cannot use, and no provider refers to it", excerpt.Value(name))...)
	}
	return rs
}
