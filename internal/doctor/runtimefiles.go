// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/registriesconf"
	"github.com/regcred/regcred/internal/registriesyaml"
	"github.com/regcred/regcred/internal/report"
)

// ValidateRuntimeFile checks a configuration file of a container runtime: registries.yaml,
// hosts.toml, a directory of them, containerd's config.toml or registries.conf. data is nil for a
// directory. It returns nil for other files.
func ValidateRuntimeFile(path string, data []byte) (*report.Validation, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	kind, found, err := checkRuntimeFile(abs, data)
	if err != nil || kind == "" {
		return nil, err
	}
	v := report.NewRuntimeValidation(path, kind, data)
	for _, f := range found {
		if f.Rule == "mirror-missing-file" { // the files of a node may not be on this machine
			continue
		}
		if rest, ok := strings.CutPrefix(f.File, abs); ok {
			f.File = path + rest
		}
		if f.Rule == containerd.RuleUnknownVersion {
			f.File = path
		}
		v.Findings = append(v.Findings, f)
	}
	return v, nil
}

// These patterns recognize files by their content.
var (
	registriesConfPattern = regexp.MustCompile(`(?m)^\s*(\[\[registry\]\]|unqualified-search-registries\s*=)`)
	containerdPattern     = regexp.MustCompile(`(?m)^\s*\[+plugins\.["']?(cri|io\.containerd\.[\w.]+)["']?`)
)

// checkRuntimeFile returns the kind of a file with an absolute path, and the findings with absolute
// paths.
func checkRuntimeFile(path string, data []byte) (kind string, found []finding.Finding, err error) {
	dir, name := filepath.Dir(path), filepath.Base(path)
	switch {
	case data == nil:
		kind, found = checkHostsDirectory(path)
	case name == "hosts.toml":
		kind, found = "hosts.toml", inDirectory(filepath.Dir(dir), containerd.CheckDirectory(filepath.Dir(dir), filepath.Base(dir)))
	case registriesyaml.IsFile(name, data):
		product := "k3s"
		if strings.Contains(path, "rke2") {
			product = "rke2"
		}
		kind, found = "registries.yaml", registriesyaml.CheckText(path, data, product)
	case name == "registries.conf" || registriesConfPattern.Match(data):
		kind = "registries.conf"
		c, err := registriesconf.Read(registriesconf.Options{Runtime: registriesconf.CRIO, Root: dir, File: "/" + name})
		if err != nil {
			return "", nil, err
		}
		found = inDirectory(dir, c.Check())
	case containerdPattern.Match(data):
		kind = "containerd's config.toml"
		r, err := containerd.ReadText(path, data, containerd.Version{})
		if err != nil {
			return kind, []finding.Finding{{Rule: "mirror-unread", Severity: finding.SeverityError, File: path, Message: err.Error()}}, nil
		}
		found = r.CheckFile()
	}
	return kind, found, nil
}

// checkHostsDirectory checks a directory such as certs.d, or one of its directories.
func checkHostsDirectory(dir string) (kind string, found []finding.Finding) {
	if _, err := os.Stat(filepath.Join(dir, "hosts.toml")); err == nil {
		return "hosts.toml", inDirectory(filepath.Dir(dir), containerd.CheckDirectory(filepath.Dir(dir), filepath.Base(dir)))
	}
	entries, err := os.ReadDir(dir)
	hasHosts := func(e fs.DirEntry) bool {
		_, err := os.Stat(filepath.Join(dir, e.Name(), "hosts.toml"))
		return err == nil
	}
	if err == nil && (filepath.Base(dir) == "certs.d" || slices.ContainsFunc(entries, hasHosts)) {
		return "directory of hosts.toml files", inDirectory(dir, containerd.CheckDirectory(dir, ""))
	}
	return "", nil
}

// inDirectory converts paths below a root directory to paths on this machine, also in fixes.
func inDirectory(root string, list []finding.Finding) []finding.Finding {
	for i := range list {
		f := &list[i]
		real := filepath.Join(root, f.File)
		f.Fix = strings.ReplaceAll(f.Fix, f.File, real)
		f.File = real
	}
	return list
}
