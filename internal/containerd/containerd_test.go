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

	"github.com/regcred/regcred/internal/containerd"
)

// configs are the versions of config.toml.
const (
	version2 = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = %q\n"
	version3 = "version = 3\n[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = %q\n[plugins.'io.containerd.gc.v1.scheduler']\npause_threshold = 0.02\n"
)

// node writes files below a root, and reads the runtime's configuration there.
func node(t *testing.T, config string, files map[string]string) *containerd.Runtime {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{"/etc/containerd/config.toml": config}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := containerd.Read(root, "/etc/containerd/config.toml")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const mirror = "https://mirror.example/v2/hub"

// TestOrigin: only a file that names another server, and a host, keeps a
// runtime of every version away from a name's own host.
func TestOrigin(t *testing.T) {
	const certs = "/etc/containerd/certs.d"
	for name, tt := range map[string]struct {
		path  string // of hosts.toml
		text  string
		host  string
		want  string // in the reason; "" for none
		roots string
	}{
		"no fallback":              {"docker.io/hosts.toml", "server = \"" + mirror + "\"\noverride_path = true\n[host.\"" + mirror + "\"]\noverride_path = true\n", "docker.io", "", certs},
		"a default":                {"_default/hosts.toml", "server = \"" + mirror + "\"\n[host]\n", "docker.io", "", certs},
		"with a port":              {"quay.io_8443_/hosts.toml", "server = \"" + mirror + "\"\n[host]\n", "quay.io:8443", "", certs},
		"with a port, older":       {"quay.io:8443/hosts.toml", "server = \"" + mirror + "\"\n[host]\n", "quay.io:8443", "", certs},
		"of another port":          {"quay.io/hosts.toml", "server = \"" + mirror + "\"\n[host]\n", "quay.io:8443", "no directory for it", certs},
		"no server":                {"docker.io/hosts.toml", "[host.\"" + mirror + "\"]\n", "docker.io", "has no server", certs},
		"the server alone":         {"docker.io/hosts.toml", "server = \"" + mirror + "\"\n", "docker.io", "no host table", certs},
		"itself":                   {"docker.io/hosts.toml", "server = \"https://registry-1.docker.io\"\n[host.\"" + mirror + "\"]\n", "docker.io", "as the server", certs},
		"itself, bare":             {"quay.io/hosts.toml", "server = \"QUAY.io:443\"\n[host]\n", "quay.io", "as the server", certs},
		"itself among the hosts":   {"docker.io/hosts.toml", "server = \"" + mirror + "\"\n[host.\"https://index.docker.io/v2\"]\n", "docker.io", "names it as a host", certs},
		"not a URL":                {"docker.io/hosts.toml", "server = \"https://[::1\"\n[host]\n", "docker.io", "as the server", certs},
		"broken":                   {"docker.io/hosts.toml", "server = \n", "docker.io", "line 1, column ", certs},
		"a capability of later":    {"docker.io/hosts.toml", "server = \"" + mirror + "\"\n[host.\"" + mirror + "\"]\ncapabilities = [\"pull\", \"referrers\"]\n", "docker.io", `capability "referrers"`, certs},
		"no file":                  {"docker.io/ca.crt", "", "docker.io", "has no hosts.toml", certs},
		"a file for another":       {"ghcr.io/hosts.toml", "server = \"" + mirror + "\"\n[host]\n", "docker.io", "no directory for it", certs},
		"its own before a default": {"docker.io/other", "", "docker.io", "has no hosts.toml", certs},
		"no config_path":           {"docker.io/hosts.toml", "server = \"" + mirror + "\"\n[host]\n", "docker.io", "no config_path", ""},
		"two directories":          {"docker.io/hosts.toml", "server = \"" + mirror + "\"\n[host]\n", "docker.io", "2 directories", certs + ":/etc/docker/certs.d"},
		"a directory as the file":  {"docker.io/hosts.toml/x", "", "docker.io", "hosts.toml", certs},
	} {
		for version, config := range map[string]string{"2": version2, "3": version3} {
			t.Run(name+" "+version, func(t *testing.T) {
				r := node(t, fmt.Sprintf(config, tt.roots), map[string]string{filepath.Join(certs, tt.path): tt.text})
				got := r.Origin(tt.host)
				if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		}
	}
}

func TestRead(t *testing.T) {
	if _, err := containerd.Read(t.TempDir(), "/etc/containerd/config.toml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{
		"version = ": "line 1, column", "imports = [\"/etc/x.toml\"]\n": "imports other files", "plugins = 1\n": "cannot be read",
	} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := containerd.Read("", path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got the error %v, want %q", text, err, want)
		}
	}
}
