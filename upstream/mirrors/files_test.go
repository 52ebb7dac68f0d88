// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package mirrors

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestContainerdFiles is like [TestContainerd], for formats and imports of config.toml.
func TestContainerdFiles(t *testing.T) {
	isolatedTests.SkipUnlessAvailable(t)
	h := startHosts(t)
	hosts := hostsTOML("[host.'https://m1.example']\n")
	for version, program := range buildPrograms() {
		whole := baseConfig(version, sectionHeader(version, "registry")+"config_path = 'DIR/certs.d'\n")
		without := baseConfig(version, "")
		head := strings.Split(whole, "\n")[0] + "\n"
		drop := head + sectionHeader(version, "registry") + "config_path = 'DIR/certs.d'\n"
		for name, tt := range map[string]struct {
			only, config string
			files        configFiles
		}{
			"Windows line ends":       {"", strings.ReplaceAll(whole, "\n", "\r\n"), nil},
			"a BOM":                   {"1.6", "\ufeff" + whole, nil},
			"no UTF-8":                {"1.6", strings.Replace(whole, "\n", "\n# \xff\x00\n", 1), nil},
			"a key in upper case":     {"", strings.Replace(whole, "config_path", "Config_Path", 1), nil},
			"a slash at the end":      {"", strings.Replace(whole, "certs.d'", "certs.d/'", 1), nil},
			"a colon at the end":      {"", strings.Replace(whole, "certs.d'", "certs.d:'", 1), nil},
			"the same twice":          {"", strings.Replace(whole, "certs.d'", "certs.d:DIR/certs.d'", 1), nil},
			"an import, by a glob":    {"2", "imports = ['conf.d/*.toml']\n" + without, configFiles{"conf.d/a.toml": drop}},
			"an import, relative":     {"2", "imports = ['conf.d/a.toml']\n" + without, configFiles{"conf.d/a.toml": drop}},
			"an import of itself":     {"", "imports = ['config.toml']\n" + whole, nil},
			"imports in a circle":     {"", "imports = ['DIR/a.toml']\n" + whole, configFiles{"a.toml": head + "imports = ['DIR/b.toml']\n", "b.toml": head + "imports = ['DIR/a.toml']\n"}},
			"an import that replaces": {"", "imports = ['DIR/a.toml']\n" + whole, configFiles{"a.toml": head + sectionHeader(version, "registry") + "config_path = 'DIR/none'\n"}},
			"a glob of nothing":       {"", "imports = ['DIR/conf.d/*.toml']\n" + whole, nil},
			"imports in their order":  {"2", "imports = ['DIR/b.toml', 'DIR/a.toml']\n" + without, configFiles{"b.toml": head + sectionHeader(version, "registry") + "config_path = 'DIR/none'\n", "a.toml": drop}},
		} {
			if tt.only != "" && tt.only != version {
				continue
			}
			t.Run(version+"/"+name, func(t *testing.T) {
				d := startContainerdWithFiles(t, program, tt.config, h.ca, tt.files)
				d.compareConfiguration(t, h, hosts, "")
			})
		}
	}
}

// startContainerdWithFiles is like [startContainerd], with additional files in the containerd's directory.
func startContainerdWithFiles(t *testing.T, program, config, ca string, beside configFiles) *containerdDaemon {
	t.Helper()
	return startPreparedContainerd(t, program, config, ca, func(dir string) {
		for name, text := range beside {
			writeFile(t, filepath.Join(dir, name), strings.ReplaceAll(text, "DIR", dir))
		}
	})
}
