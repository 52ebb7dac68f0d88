// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/route"
)

// Contents of a config.toml in format versions 2 and 3. %q is the config_path.
const (
	configVersion2 = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = %q\n"
	configVersion3 = "version = 3\n[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = %q\n[plugins.'io.containerd.gc.v1.scheduler']\npause_threshold = 0.02\n"
)

// newTestRuntime writes a config.toml and other files below a root directory, and reads the configuration for
// an unknown containerd version.
func newTestRuntime(t *testing.T, config string, files map[string]string) *containerd.Runtime {
	t.Helper()
	return newTestRuntimeVersion(t, "", config, files)
}

func newTestRuntimeVersion(t *testing.T, version, config string, files map[string]string) *containerd.Runtime {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{"/etc/containerd/config.toml": config}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return must.Get(containerd.Read(root, "/etc/containerd/config.toml", containerd.ParseVersion(version)))(t)
}

const mirrorURL = "https://mirror.example/v2/hub"

// TestOrigin verifies that containerd may query the original registry unless a hosts.toml contains
// another server and a host table.
func TestOrigin(t *testing.T) {
	const certs = "/etc/containerd/certs.d"
	for name, tt := range map[string]struct {
		path  string // path of the hosts.toml
		text  string
		host  string
		want  string // part of the reason; "" for none
		roots string
	}{
		"no fallback":              {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\noverride_path = true\n[host.\"" + mirrorURL + "\"]\noverride_path = true\n", "docker.io", "", certs},
		"a default":                {"_default/hosts.toml", "server = \"" + mirrorURL + "\"\n[host]\n", "docker.io", "", certs},
		"with a port":              {"quay.io_8443_/hosts.toml", "server = \"" + mirrorURL + "\"\n[host]\n", "quay.io:8443", "", certs},
		"with a port, older":       {"quay.io:8443/hosts.toml", "server = \"" + mirrorURL + "\"\n[host]\n", "quay.io:8443", "", certs},
		"of another port":          {"quay.io/hosts.toml", "server = \"" + mirrorURL + "\"\n[host]\n", "quay.io:8443", "no directory for this host", certs},
		"no server":                {"docker.io/hosts.toml", "[host.\"" + mirrorURL + "\"]\n", "docker.io", "does not set server", certs},
		"the server alone":         {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\n", "docker.io", "no host table", certs},
		"itself":                   {"docker.io/hosts.toml", "server = \"https://registry-1.docker.io\"\n[host.\"" + mirrorURL + "\"]\n", "docker.io", "as the server", certs},
		"itself, bare":             {"quay.io/hosts.toml", "server = \"QUAY.io:443\"\n[host]\n", "quay.io", "as the server", certs},
		"itself among the hosts":   {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\n[host.\"https://index.docker.io/v2\"]\n", "docker.io", "has a host table for this host", certs},
		"not a URL":                {"docker.io/hosts.toml", "server = \"https://[::1\"\n[host]\n", "docker.io", "must be a URL", certs},
		"broken":                   {"docker.io/hosts.toml", "server = \n", "docker.io", "line 1, column ", certs},
		"a capability of later":    {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\n[host.\"" + mirrorURL + "\"]\ncapabilities = [\"pull\", \"referrers\"]\n", "docker.io", `capability "referrers"`, certs},
		"no file":                  {"docker.io/ca.crt", "", "docker.io", "has no hosts.toml", certs},
		"a file for another":       {"ghcr.io/hosts.toml", "server = \"" + mirrorURL + "\"\n[host]\n", "docker.io", "no directory for this host", certs},
		"its own before a default": {"docker.io/other", "", "docker.io", "has no hosts.toml", certs},
		"no config_path":           {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\n[host]\n", "docker.io", "does not set config_path", ""},
		"two directories":          {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\n[host]\n", "docker.io", "2 directories", certs + ":/etc/docker/certs.d"},
		"a directory as the file":  {"docker.io/hosts.toml/x", "", "docker.io", "", certs},
		"a file as the directory":  {"docker.io", "", "docker.io", "", certs},
		"a relative directory":     {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\n[host]\n", "docker.io", "not an absolute path", "etc/containerd/certs.d"},
		"no scheme, but http":      {"docker.io/hosts.toml", "server = \"httpcache.example/v2/hub\"\n[host]\n", "docker.io", "as the server", certs},
		"itself, with a dot":       {"quay.io/hosts.toml", "server = \"https://quay.io.\"\n[host]\n", "quay.io", "as the server", certs},
		"the server's capability":  {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\ncapabilities = [\"fetch\"]\n[host]\n", "docker.io", `capability "fetch"`, certs},
		"a switch as text":         {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\noverride_path = \"true\"\n[host]\n", "docker.io", "line 2, column ", certs},
		"a dial_timeout":           {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\n[host.\"" + mirrorURL + "\"]\ndial_timeout = \"5\"\n", "docker.io", "dial_timeout", certs},
		"a ca":                     {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\nca = [[\"a\", \"b\"]]\n[host]\n", "docker.io", "ca must be", certs},
		"a client":                 {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\nclient = [[\"a\"]]\n[host]\n", "docker.io", "client must be", certs},
		"a header":                 {"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\n[header]\nx-a = 1\n[host]\n", "docker.io", "a header must be", certs},
		"all of that in order": {
			"docker.io/hosts.toml", "server = \"" + mirrorURL + "\"\nca = [\"a\"]\nclient = [\"a\", [\"b\", \"c\"]]\ndial_timeout = \"5s\"\n[header]\nx-a = [\"b\"]\nx-b = \"c\"\n[host]\n",
			"docker.io", "", certs,
		},
	} {
		for version, config := range map[string]string{"2": configVersion2, "3": configVersion3} {
			t.Run(name+" "+version, func(t *testing.T) {
				r := newTestRuntime(t, fmt.Sprintf(config, tt.roots), map[string]string{filepath.Join(certs, tt.path): tt.text})
				want := tt.want
				if name == "the server alone" && version == "3" {
					want = "" // containerd 1 reads no such file
				}
				got := r.OriginQueryReason(tt.host)
				if !strings.Contains(got, want) || (got == "") != (want == "") {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

// TestRead verifies the errors for files with which containerd does not start, and for the
// config.toml of Docker's package, which disables the CRI plugin.
func TestRead(t *testing.T) {
	if _, err := containerd.Read(t.TempDir(), "/etc/containerd/config.toml", containerd.Version{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{
		"version = ": "line 1, column", "version = 2\nimports = [\"/etc/x.toml\"]\n": "/config.toml imports /etc/x.toml, which does not exist", "plugins = 1\n": "cannot be read",
		"version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n": "", "version = 3\nimports = ['*.toml']\n": "", // imports only itself
		"": "", "version = 5\n": "/config.toml:1: unsupported containerd config version 5", "version = 3\nimports = ['[*']\n": "syntax error in pattern",
		"disabled_plugins = [\"cri\"]\n":                                             containerd.ErrNoCRI.Error(),
		"version = 3\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n":            containerd.ErrNoCRI.Error(),
		"version = 3\nimports = ['config.toml', 'config.toml']\n[plugins.'x.y.z']\n": "",
	} {
		root := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(root, "config.toml"), []byte(text), 0o600))
		if _, err := containerd.Read(root, "/config.toml", containerd.Version{}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got the error %v, want %q", text, err, want)
		}
	}
}

// queriedURLs returns the URLs that containerd queries for an image.
func queriedURLs(t *testing.T, r *containerd.Runtime, image, version string) (list []string) {
	t.Helper()
	ref := must.Get(route.Parse(image))(t)
	w := r.RouteFor(ref, containerd.ParseVersion(version))
	if w.FailureReason != "" {
		return []string{"fails: " + w.FailureReason}
	}
	for _, h := range w.Hops {
		list = append(list, h.URL+h.Repository)
	}
	return list
}

// TestSections verifies which section of config.toml each containerd release reads, for each format
// version.
func TestSections(t *testing.T) {
	const mirrored, alone = "https://mirror.example/v2/library/x", "https://registry-1.docker.io/v2/library/x"
	const version1 = "[plugins.cri.registry]\nconfig_path = %q\n"
	for _, tt := range []struct {
		config string
		want   map[string]bool // whether config_path is read, by containerd version
	}{
		{version1, map[string]bool{"1.6.20": true, "1.7.29": true, "2.0.0": true, "2.4.3": true}},
		{configVersion2, map[string]bool{"1.6.20": true, "1.7.29": true, "2.0.0": true, "2.4.3": true}},
		{configVersion3, map[string]bool{"2.0.0": true, "2.4.3": true}},
		{strings.Replace(configVersion3, "3", "4", 1), map[string]bool{"2.3.0": true, "2.4.3": true}},
		{strings.Replace(configVersion2, "2", "3", 1), map[string]bool{"2.0.0": false, "2.2.1": false, "2.3.0": true}},
		{strings.Replace(configVersion3, "3", "2", 1), map[string]bool{"1.6.20": false, "1.7.29": false, "2.0.0": true}},
		{strings.Replace(configVersion2, "version = 2", "", 1), map[string]bool{"1.6.20": false, "2.0.0": true}},
	} {
		r := newTestRuntime(t, fmt.Sprintf(tt.config, "/certs"), map[string]string{"/certs/docker.io/hosts.toml": "server = 'https://mirror.example'\n[host]\n"})
		for version, read := range tt.want {
			want := alone
			if read {
				want = mirrored
			}
			if got := queriedURLs(t, r, "x", version); len(got) != 1 || got[0] != want {
				t.Errorf("%s: containerd %s asks %q, want %s", tt.config, version, got, want)
			}
		}
	}
}

// TestImports verifies that containerd 1 uses only the last file that has the plugin's section, and
// that containerd 2 merges the files by key.
func TestImports(t *testing.T) {
	const section = "[plugins.'io.containerd.grpc.v1.cri'"
	r := newTestRuntime(t, "version = 2\nimports = ['conf.d/*.toml', '/etc/more.toml']\n"+section+".registry]\nconfig_path = '/certs'\n", map[string]string{
		"/etc/containerd/conf.d/99-nvidia.toml": "version = 2\n" + section + ".containerd]\ndefault_runtime_name = 'nvidia'\n",
		"/etc/more.toml":                        "version = 2\nimports = ['/etc/containerd/config.toml']\n[plugins.'x.y.z']\na = 1\n",
		"/certs/docker.io/hosts.toml":           "server = 'https://mirror.example'\n[host]\n",
	})
	if diff := cmp.Diff([]string{"/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml", "/etc/more.toml"}, r.Files); diff != "" {
		t.Error(diff)
	}
	for version, want := range map[string]string{"1.7.29": "https://registry-1.docker.io/v2/library/x", "2.1.0": "https://mirror.example/v2/library/x"} {
		if got := queriedURLs(t, r, "x", version); len(got) != 1 || got[0] != want {
			t.Errorf("containerd %s asks %q, want %s", version, got, want)
		}
	}
}
