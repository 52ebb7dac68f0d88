// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"errors"
	"io/fs"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/registriesyaml"
	"github.com/regcred/regcred/internal/terminal"
)

// checkRegistriesYAML checks the registries.yaml of k3s and rke2, which generate
// containerd's configuration from it.
func checkRegistriesYAML(r *results, root inroot.FS) {
	for _, c := range node.RuntimeConfigs() {
		product, path, made := c.Product, c.Registries, c.Containerd
		found, err := registriesyaml.Check(root, path, product)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			r.add(finding.SeverityWarning, "", "the %s registry configuration is unknown: %v", product, err)
			continue
		}
		if olderThan(root, made, path) {
			found = append(found, finding.Finding{
				Rule: "mirror-restart", Severity: finding.SeverityWarning, File: path, Fix: "restart " + product + " on this node",
				Message: product + " reads this file only when it starts, and wrote " + made + " before this file was last changed",
			})
		}
		for _, f := range found {
			r.report(f)
		}
		if len(found) == 0 {
			r.add(finding.SeverityOK, "", "%s: no problems found", terminal.ShellPath(path))
		}
	}
}

// olderThan reports whether file a was changed before b; false if one does not exist.
func olderThan(root inroot.FS, a, b string) bool {
	one, err := root.Stat(a)
	other, err2 := root.Stat(b)
	return errors.Join(err, err2) == nil && one.ModTime().Before(other.ModTime())
}
