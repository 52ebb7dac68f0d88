// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/route"
)

// TestCheck verifies the findings for mistakes in a hosts.toml.
func TestCheck(t *testing.T) {
	const certs, dir = "/etc/containerd/certs.d", "/etc/containerd/certs.d/quay.io"
	const file = dir + "/hosts.toml"
	at := func(line int, rule, severity string) []string {
		return []string{fmt.Sprintf("%s %s %s:%d", severity, rule, file, line)}
	}
	for name, tt := range map[string]struct {
		hosts   string
		want    []string
		version string // "" means 2.4.3
	}{
		"as it should be":        {"server = 'https://m.example/v2/q'\noverride_path = true\n[host.'https://m.example/v2/q']\noverride_path = true\n", nil, ""},
		"on loopback":            {"[host.'http://localhost:5000']\n", nil, ""},
		"a capability":           {"[host.'https://m.example']\ncapabilities = ['fetch']\n", at(2, "mirror-unread", "error"), ""},
		"a capability of later":  {"[host.'https://m.example']\ncapabilities = ['pull', 'resolve', 'referrers']\n", at(2, "mirror-unread", "error"), "2.1.0"},
		"no host table":          {"server = 'https://m.example'\n", at(1, "mirror-unread", "error"), "1.7.29"},
		"no TOML":                {"[host.'https://m.example']\n[", at(2, "mirror-unread", "error"), ""},
		"a missing file":         {"[host.'https://m.example']\nskip_verify = false\nca = 'ca.pem'\n", at(3, "mirror-missing-file", "error"), ""},
		"a missing key":          {"[host.'https://m.example']\nclient = [['hosts.toml', 'key.pem']]\n", at(2, "mirror-missing-file", "error"), ""},
		"/v2 twice":              {"\n[host.'https://m.example/v2/q']\n", at(2, "mirror-path", "warning"), ""},
		"/v2 never":              {"[host.'https://m.example/q']\noverride_path = true\n", at(2, "mirror-path", "warning"), ""},
		"/v2 after the path":     {"[host.'https://m.example/q']\n[host.'https://m.example/q/v2']\n[host.'https://m.example/v2/']\n", nil, ""},
		"plain http":             {"[host.'http://m.example']\n", at(1, "mirror-plain-http", "info"), ""},
		"a header":               {"[host.'https://m.example'.header]\nAuthorization = 'Basic " + canary.PasswordSecret + "'\n", at(2, "mirror-header", "info"), ""},
		"a header in lower case": {"[host.'https://m.example'.header]\nauthorization = 'Basic " + canary.PasswordSecret + "'\n", at(2, "mirror-header", "warning"), ""},
		"server below a header":  {"[host.'https://m.example']\nserver = 'https://m.example'\n", at(2, "mirror-unknown-key", "warning"), ""},
		"a key in upper case":    {"[host.'https://m.example']\nCapabilities = ['pull']\n", at(2, "mirror-unknown-key", "warning"), "1.7.29"},
		"a byte order mark":      {"\ufeff[host.'https://m.example']\n", at(1, "mirror-unread", "error"), ""},
		"a key with a dash":      {"[host.'https://m.example']\nskip-verify = true\n", at(2, "mirror-unknown-key", "warning"), ""},
		"inline":                 {"host = {'https://m.example' = {}}\n", at(1, "mirror-inline", "warning"), ""},
		"tables apart":           {"[host.'https://m.example']\n[host.'https://n.example']\n[host.'https://m.example'.header]\nx-a = 'b'\n", at(1, "mirror-twice", "info"), ""},
		"two URLs in one":        {"server = 'https://u:" + canary.PasswordSecret + "@m.i://u:" + canary.PasswordSecret + "@m.example'\n[host]\n", at(1, "mirror-path", "warning"), ""},
		"a password, inline":     {"host = {'https://u:" + canary.PasswordSecret + "@m.example' = {}}\n", at(1, "mirror-inline", "warning"), ""},
		"a password, /v2 twice":  {"[host.'https://u:" + canary.PasswordSecret + "@m.example/v2/q']\n", at(1, "mirror-path", "warning"), ""},
		"no host in it":          {"[host.'https:///x']\n", at(1, "mirror-path", "warning"), ""},
		"a capability, 2.4.3":    {"[host.'https://m.example']\ncapabilities = ['pull', 'resolve', 'referrers']\n", nil, ""},
		"no host table, 2.4.3":   {"server = 'https://m.example'\n", nil, ""},
		"upper case, 2.4.3":      {"[host.'https://m.example']\nCapabilities = ['pull']\n", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestRuntimeVersion(t, cmp.Or(tt.version, "2.4.3"), fmt.Sprintf(configVersion2, certs), map[string]string{file: tt.hosts})
			checkFindings(t, r.Check(), tt.want)
		})
	}
}

func checkFindings(t *testing.T, found []finding.Finding, want []string) {
	t.Helper()
	var got []string
	for _, f := range found {
		got = append(got, fmt.Sprintf("%s %s %s:%d", f.Severity, f.Rule, f.File, f.Line))
		canary.AssertAbsent(t, "a finding", fmt.Sprint(f))
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s\n%v", diff, found)
	}
}

// TestCheckConfig verifies the findings for mistakes in config.toml and in the names of
// directories.
func TestCheckConfig(t *testing.T) {
	const config, certs = "/etc/containerd/config.toml", "/etc/containerd/certs.d"
	const hosts = "server = 'https://m.example'\n[host.'https://m.example']\n"
	const registry = "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.registry]\n"
	const tables = "[plugins.'io.containerd.grpc.v1.cri'.registry."
	for name, tt := range map[string]struct {
		config, version string
		files           map[string]string
		want            []string
	}{
		"nothing":         {"version = 2\n", "1.7.29", nil, nil},
		"both ways":       {registry + "config_path = '/x'\n" + tables + "mirrors.'quay.io']\nendpoint = ['https://m.example']\n", "2.4.2", nil, []string{"error mirror-config-path " + config + ":4"}},
		"a list of paths": {registry + "config_path = ['/x']\n", "2.4.2", nil, []string{"error mirror-config-path " + config + ":3"}},
		"TLS of old":      {registry + "config_path = '/x'\n" + tables + "configs.'quay.io'.tls]\nca_file = '/ca'\n", "1.7.29", nil, []string{"error mirror-config-path " + config + ":4"}},
		"TLS, too old":    {registry + tables + "configs.'quay.io'.tls]\nca_file = '/ca'\n", "2.0.0", nil, []string{"warning mirror-old-tls " + config + ":3"}},
		"a password":      {registry + tables + "configs.'quay.io'.auth]\nusername = 'u'\npassword = '" + canary.PasswordSecret + "'\n", "1.7.29", nil, []string{"info mirror-own-login " + config + ":3"}},
		"no user":         {registry + tables + "configs.'quay.io'.auth]\npassword = '" + canary.PasswordSecret + "'\n", "2.4.3", nil, []string{"info mirror-own-login " + config + ":3", "warning mirror-own-login " + config + ":3"}},
		"a bare token":    {registry + tables + "configs.'quay.io'.auth]\nauth = '" + canary.PasswordSecret + "'\n", "2.4.3", nil, []string{"info mirror-own-login " + config + ":3", "error mirror-own-login " + config + ":3"}},
		"a wildcard":      {registry + tables + "configs.'*'.auth]\nusername = 'u'\n", "2.4.3", nil, []string{"info mirror-own-login " + config + ":3", "warning mirror-own-login " + config + ":3"}},
		// containerd/containerd#4862
		"auths below configs": {registry + tables + "configs.auths.'https://a.example:8444']\nauth = 'omitted'\n", "1.7.29", nil, []string{"warning mirror-own-login " + config + ":3"}},
		"no table auth":       {registry + tables + "configs.'a.example']\nusername = 'u'\n", "1.7.29", nil, []string{"warning mirror-own-login " + config + ":3"}},
		"a mirror's port": {registry + "config_path = '" + certs + "'\n" + tables + "configs.'m.example:443'.auth]\nusername = 'u'\n", "2.4.2", map[string]string{certs + "/quay.io/hosts.toml": hosts},
			[]string{"info mirror-own-login " + config + ":4", "warning mirror-own-login " + config + ":4"}},
		"two directories": {registry + "config_path = '" + certs + ":/etc/docker/certs.d'\n", "2.4.2", map[string]string{certs + "/quay.io/hosts.toml": hosts},
			[]string{"error mirror-two-directories " + config + ":3"}},
		"two directories, read": {registry + "config_path = '" + certs + ":/etc/docker/certs.d'\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndiscard_unpacked_layers = true\n", "2.4.2",
			map[string]string{certs + "/quay.io/hosts.toml": hosts}, nil},
		"two directories by default":       {"version = 3\n", "2.2.0", map[string]string{certs + "/quay.io/hosts.toml": hosts}, []string{"warning mirror-unset " + config + ":1"}},
		"two directories by default, read": {"version = 3\n", "2.4.3", map[string]string{certs + "/quay.io/hosts.toml": hosts}, nil},
		"no config_path":                   {registry + "config_path = ''\n", "1.7.29", map[string]string{certs + "/quay.io/hosts.toml": hosts}, []string{"warning mirror-unset " + config + ":2"}},
		"no config_path, and mirrors":      {registry + tables + "mirrors.'quay.io']\nendpoint = ['https://m.example']\n", "1.7.29", map[string]string{certs + "/quay.io/hosts.toml": hosts}, nil},
		"no config_path, and no hosts":     {registry + "config_path = ''\n", "1.7.29", map[string]string{certs + "/quay.io/ca.crt": ""}, nil},
		"another version's place":          {"version = 3\n[plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = '/x'\n", "2.1.0", nil, []string{"warning mirror-section " + config + ":2"}},
		"no version":                       {"[plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = '/x'\n", "1.7.29", nil, []string{"warning mirror-section " + config + ":1"}},
		"Docker Hub's other name":          {registry + "config_path = '" + certs + "'\n", "2.4.2", map[string]string{certs + "/registry-1.docker.io/hosts.toml": hosts}, []string{"warning mirror-directory " + certs + "/registry-1.docker.io:0"}},
		"a scheme":                         {registry + "config_path = '" + certs + "'\n", "2.4.2", map[string]string{certs + "/https:/quay.io/hosts.toml": hosts}, []string{"warning mirror-directory " + certs + "/https::0"}},
		"a file for a directory":           {registry + "config_path = '" + certs + "'\n", "2.4.2", map[string]string{certs + "/quay.io": hosts, certs + "/README.md": "server"}, []string{"error mirror-directory " + certs + "/quay.io:1"}},
		"an empty file, the hub's":         {registry + "config_path = '" + certs + "'\n", "2.4.2", map[string]string{certs + "/docker.io": ""}, []string{"error mirror-directory " + certs + "/docker.io:1"}},
		"a file for no host":               {registry + "config_path = '" + certs + "'\n", "2.4.2", map[string]string{certs + "/hosts.toml": hosts}, []string{"warning mirror-directory " + certs + "/hosts.toml:1"}},
		"a directory alone":                {registry + "config_path = '" + certs + "'\n", "2.4.2", map[string]string{certs + "/quay.io/ca.crt": ""}, nil},
		"a directory before a default": {registry + "config_path = '" + certs + "'\n", "2.4.2", map[string]string{certs + "/quay.io/ca.crt": "", certs + "/_default/hosts.toml": hosts},
			[]string{"info mirror-default " + certs + "/_default/hosts.toml:2", "info mirror-default " + certs + "/_default/hosts.toml:1", "warning mirror-hides-default " + certs + "/quay.io:0"}},
	} {
		t.Run(name, func(t *testing.T) {
			at := newTestRuntime(t, tt.config, tt.files)
			r := must.Get(containerd.Read(at.Root, at.File, containerd.ParseVersion(tt.version)))(t)
			checkFindings(t, r.Check(), tt.want)
		})
	}
}

// TestHosts verifies that Hosts returns the image hosts of the directories.
func TestHosts(t *testing.T) {
	const certs = "/certs"
	r := newTestRuntime(t, fmt.Sprintf(configVersion2, certs), map[string]string{
		certs + "/quay.io/x": "", certs + "/a.example_5000_/x": "", certs + "/_default/x": "", certs + "/docker.io/x": "", certs + "/file": "", certs + "/b.example:80/x": "",
	})
	if got, want := r.Hosts(), []string{"a.example:5000", "b.example:80", "docker.io", "quay.io"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPort verifies that a directory for a host without a port is reported for images of the same
// host with a port.
func TestPort(t *testing.T) {
	r := newTestRuntime(t, fmt.Sprintf(configVersion2, "/certs"), map[string]string{"/certs/quay.io/hosts.toml": "[host.'https://m.example']\n"})
	for image, want := range map[string][]string{"quay.io/a": nil, "quay.io:8443/a": {"warning mirror-directory /certs/quay.io/hosts.toml:1", "info mirror-version /etc/containerd/config.toml:0"}, "a.example:1/a": nil} {
		ref := must.Get(route.Parse(image))(t)
		checkFindings(t, r.Route(ref).Findings, want)
	}
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3": "1.6.20", "containerd github.com/k3s-io/containerd v2.1.4-k3s2 abc": "2.1.4",
		"v1.7.23-k3s2": "1.7.23", "unknown": "", "": "",
	} {
		if got := containerd.ParseVersion(text).String(); got != want {
			t.Errorf("%q is version %q, want %q", text, got, want)
		}
	}
}

// FuzzRoute verifies that no content of the two files causes a panic, and that a route has no hosts
// if and only if the pull fails.
func FuzzRoute(f *testing.F) {
	f.Add("version = 2\n[plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = '/certs'\n", "server = 'm'\n[host.'https://m.example'.header]\na = ['b']\n", "1.6.20")
	f.Add("[plugins.cri.registry.mirrors.'*']\nendpoint = ['a', 'http://b/c']\n[plugins.cri.registry.configs.x.auth]\n", "host = {a = {}}\n", "2.4.2")
	f.Add("version = 3\nimports = ['*.toml', '/x/*']\n", "[[host]]\n", "")
	f.Add("version = 2\n[[plugins]]\n", strings.Repeat("a.", 1000)+"a = 1\n", "1.7.0")
	root := f.TempDir()
	for _, dir := range []string{"certs/docker.io", "etc/containerd"} {
		must.Do(f, os.MkdirAll(filepath.Join(root, dir), 0o700))
	}
	f.Fuzz(func(t *testing.T, config, hosts, version string) {
		for name, text := range map[string]string{"etc/containerd/config.toml": config, "certs/docker.io/hosts.toml": hosts} {
			must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
		}
		r, err := containerd.Read(root, "/etc/containerd/config.toml", containerd.ParseVersion(version))
		if err != nil {
			return
		}
		for _, image := range []string{"x", "quay.io:5000/a@sha256:" + strings.Repeat("0", 64)} {
			ref := must.Get(route.Parse(image))(t)
			if w := r.Route(ref); (len(w.Hops) == 0) != (w.FailureReason != "") || w.String() == "" {
				t.Errorf("%s: %+v", image, w)
			}
		}
		r.OriginQueryReason("docker.io")
	})
}

// TestUnknownVersion verifies that a containerd of unknown version is checked as the newest
// release, and that one note is added to warnings and errors.
func TestUnknownVersion(t *testing.T) {
	const config, file = "/etc/containerd/config.toml", "/certs/quay.io/hosts.toml"
	for hosts, want := range map[string][]string{
		"server = 'https://m.example'\n":                         nil, // containerd 1 rejects it
		"[host.'http://m.example']\n":                            {"info mirror-plain-http " + file + ":1"},
		"[host.'https://m.example']\ncapabilities = ['fetch']\n": {"error mirror-unread " + file + ":2", "info mirror-version " + config + ":0"},
	} {
		r := newTestRuntime(t, fmt.Sprintf(configVersion2, "/certs"), map[string]string{file: hosts})
		checkFindings(t, r.Check(), want)
		ref := must.Get(route.Parse("quay.io/a"))(t)
		checkFindings(t, r.Route(ref).Findings, want)
	}
}
