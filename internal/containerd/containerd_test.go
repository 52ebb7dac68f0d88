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
		"a file as the directory":  {"docker.io", "", "docker.io", "not a directory", certs},
		"a relative directory":     {"docker.io/hosts.toml", "server = \"" + mirror + "\"\n[host]\n", "docker.io", "no absolute path", "etc/containerd/certs.d"},
		"no scheme, but http":      {"docker.io/hosts.toml", "server = \"httpcache.example/v2/hub\"\n[host]\n", "docker.io", "as the server", certs},
		"itself, with a dot":       {"quay.io/hosts.toml", "server = \"https://quay.io.\"\n[host]\n", "quay.io", "as the server", certs},
		"the server's capability":  {"docker.io/hosts.toml", "server = \"" + mirror + "\"\ncapabilities = [\"fetch\"]\n[host]\n", "docker.io", `capability "fetch"`, certs},
		"a switch as text":         {"docker.io/hosts.toml", "server = \"" + mirror + "\"\noverride_path = \"true\"\n[host]\n", "docker.io", "line 2, column ", certs},
		"a dial_timeout":           {"docker.io/hosts.toml", "server = \"" + mirror + "\"\n[host.\"" + mirror + "\"]\ndial_timeout = \"5\"\n", "docker.io", "dial_timeout", certs},
		"a ca":                     {"docker.io/hosts.toml", "server = \"" + mirror + "\"\nca = [[\"a\", \"b\"]]\n[host]\n", "docker.io", "a ca that", certs},
		"a client":                 {"docker.io/hosts.toml", "server = \"" + mirror + "\"\nclient = [[\"a\"]]\n[host]\n", "docker.io", "a client that", certs},
		"a header":                 {"docker.io/hosts.toml", "server = \"" + mirror + "\"\n[header]\nx-a = 1\n[host]\n", "docker.io", "a header that", certs},
		"all of that in order": {
			"docker.io/hosts.toml", "server = \"" + mirror + "\"\nca = [\"a\"]\nclient = [\"a\", [\"b\", \"c\"]]\ndial_timeout = \"5s\"\n[header]\nx-a = [\"b\"]\nx-b = \"c\"\n[host]\n",
			"docker.io", "", certs,
		},
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
	const dropIn = "imports = ['/etc/containerd/conf.d/*.toml']\n"
	for text, want := range map[string]string{
		"version = ": "line 1, column", "version = 2\nimports = [\"/etc/x.toml\"]\n": "imports other files", "plugins = 1\n": "cannot be read",
		"version = 3\n" + dropIn: "", "version = 3\nimports = ['*.toml']\n": "imports other files",
		"": "is of version 0", "version = 1\n[plugins.cri.registry]\nconfig_path = '/x'\n": "is of version 1",
		"disabled_plugins = [\"cri\"]\n": containerd.ErrNoCRI.Error(),
	} {
		root := t.TempDir()
		path := filepath.Join(root, "config.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := containerd.Read(root, "/config.toml"); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got the error %v, want %q", text, err, want)
		}
	}
}

// TestReadSection: each version of the file has its own place, and what stands
// in another's is passed over.
func TestReadSection(t *testing.T) {
	for config, want := range map[string]bool{
		version2: true, version3: true,
		strings.Replace(version2, "2", "3", 1): false, strings.Replace(version3, "3", "2", 1): false,
	} {
		if got := len(node(t, fmt.Sprintf(config, "/certs"), nil).Certs) > 0; got != want {
			t.Errorf("%q: read is %v, want %v", config, got, want)
		}
	}
}

// TestImports: a pattern for drop-ins counts if there are some.
func TestImports(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"config.toml": "version = 2\nimports = ['/conf.d/*.toml']\n", "conf.d/99-nvidia.toml": "version = 2\n"} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := containerd.Read(root, "/config.toml"); err == nil || !strings.Contains(err.Error(), "imports other files") {
		t.Errorf("got the error %v", err)
	}
}
