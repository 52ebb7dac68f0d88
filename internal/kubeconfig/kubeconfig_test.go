// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubeconfig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/kube"
)

// writeConfig writes a kubeconfig with two contexts and returns its path.
func writeConfig(t *testing.T, name, server string, change func(cluster, user map[string]any)) string {
	t.Helper()
	cluster := map[string]any{"server": server}
	user := map[string]any{"token": canary.TokenSecret}
	if change != nil {
		change(cluster, user)
	}
	context := map[string]any{"cluster": "c", "user": "u"}
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "main",
		"clusters": []any{map[string]any{"name": "c", "cluster": cluster}},
		"users":    []any{map[string]any{"name": "u", "user": user}},
		"contexts": []any{map[string]any{"name": "main", "context": context}, map[string]any{"name": "other", "context": context}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, name, string(data))
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// TestNamespace verifies the namespaces of contexts and pods.
func TestNamespace(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeFile(t, in("config"), `{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[
		{"name":"a","context":{"cluster":"c","namespace":"team"}},{"name":"b","context":{"cluster":"c"}}]}`)
	writeFile(t, in("broken"), "{")
	writeFile(t, in("pod/namespace"), "kube-system\n")
	pod := []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{Kubeconfig: in("config")}, "team"},
		{Options{Kubeconfig: in("config"), Context: "b"}, "default"},
		{Options{Kubeconfig: in("config"), Context: "none"}, "default"},
		{Options{Kubeconfig: in("broken")}, "default"},
		{Options{Environ: []string{"KUBECONFIG=" + in("config")}}, "team"},
		{Options{Environ: pod}, "kube-system"},
		{Options{Kubeconfig: in("config"), Environ: pod}, "team"},
	} {
		if got := namespaceFor(tt.o, in("pod")); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.o, got, tt.want)
		}
	}
	if got := namespaceFor(Options{Environ: pod}, in("none")); got != "default" {
		t.Errorf("a pod without the file: %q", got)
	}
}

// TestConfig verifies which source provides the API server's address, and the error messages.
// DIR stands for the test's directory.
func TestConfig(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeConfig(t, in("a"), "https://a.example", nil)
	writeConfig(t, in("b"), "https://b.example", nil)
	writeConfig(t, in("home/.kube/config"), "https://home.example", nil)
	writeConfig(t, in("insecure"), "https://a.example", func(cluster, _ map[string]any) { cluster["insecure-skip-tls-verify"] = true })
	writeConfig(t, in("plain"), "http://a.example", nil)
	writeConfig(t, in("exec"), "https://a.example", func(_, user map[string]any) {
		user["exec"] = map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "interactiveMode": "Never"}
	})
	writeFile(t, in("pod/token"), canary.TokenSecret)
	writeFile(t, in("pod/ca.crt"), "a certificate")
	home := "HOME=" + in("home")
	pod := []string{"KUBERNETES_SERVICE_HOST=fd00::1", "KUBERNETES_SERVICE_PORT=6443"}
	for _, tt := range []struct {
		name string
		o    Options
		from string
		host string
	}{
		{"named", Options{Kubeconfig: in("a"), Environ: append(pod, "KUBECONFIG="+in("b"))}, "DIR/a, context main", "https://a.example"},
		{"context", Options{Kubeconfig: in("a"), Context: "other"}, "DIR/a, context other", "https://a.example"},
		{"KUBECONFIG", Options{Environ: append(pod, "KUBECONFIG="+in("b"), home)}, "KUBECONFIG=DIR/b, context main", "https://b.example"},
		{"KUBECONFIG, several", Options{Environ: []string{"KUBECONFIG=" + strings.Join([]string{in("none"), in("b"), in("a")}, string(os.PathListSeparator))}},
			"KUBECONFIG=DIR/none:DIR/b:DIR/a, context main", "https://b.example"},
		{"pod", Options{Environ: append(pod, home)}, "in-cluster", "https://[fd00::1]:6443"},
		{"pod without a port", Options{Environ: []string{"KUBERNETES_SERVICE_HOST=h"}}, "in-cluster", "https://h:443"},
		{"a variable twice", Options{Environ: []string{"KUBECONFIG=" + in("a"), "KUBECONFIG=" + in("b")}}, "KUBECONFIG=DIR/b, context main", "https://b.example"},
		{"context in a pod", Options{Context: "other", Environ: append(pod, home)}, "DIR/home/.kube/config, context other", "https://home.example"},
		{"home", Options{Environ: []string{home}}, "DIR/home/.kube/config, context main", "https://home.example"},
		{"insecure", Options{Kubeconfig: in("insecure")}, "DIR/insecure, context main, which disables verification of the server's certificate (insecure-skip-tls-verify)", "https://a.example"},
		{"plain", Options{Kubeconfig: in("plain")}, "DIR/plain, context main, without TLS, so no credentials are sent", "http://a.example"},
		{"exec", Options{Kubeconfig: in("exec")}, "DIR/exec, context main, which runs aws for credentials", "https://a.example"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, from, err := loadConfig(tt.o, in("pod"))
			if err != nil {
				t.Fatal(err)
			}
			if got := normalizeMessage(from, dir); got != tt.from || cfg.Host != tt.host {
				t.Errorf("got %q, %q; want %q, %q", got, cfg.Host, tt.from, tt.host)
			}
			if !strings.HasPrefix(cfg.UserAgent, "regcred/") {
				t.Errorf("the client calls itself %q", cfg.UserAgent)
			}
		})
	}
}

// normalizeMessage makes messages independent of the directory and the operating system.
func normalizeMessage(s, dir string) string {
	s = strings.ReplaceAll(s, dir, "DIR")
	return strings.ReplaceAll(strings.ReplaceAll(s, `\`, "/"), "DIR/none;DIR/b;", "DIR/none:DIR/b:")
}

func TestLoadConfigErrors(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeConfig(t, in("a"), "https://a.example", nil)
	writeFile(t, in("empty"), "")
	writeFile(t, in("text"), "token: "+canary.TokenSecret+"\n\t- x")
	writeFile(t, in("types"), "apiVersion: v1\nkind: Config\nusers: "+canary.TokenSecret)
	writeFile(t, in("current"), "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: h}}]")
	writeConfig(t, in("certificate"), "https://a.example", func(cluster, _ map[string]any) { cluster["certificate-authority"] = "none.crt" })
	writeConfig(t, in("token"), "https://a.example", func(_, user map[string]any) { delete(user, "token"); user["tokenFile"] = "none" })
	for name, proxy := range map[string]string{"proxy": "http://u:" + canary.PasswordSecret + "@%zz", "scheme": "ftp://u:" + canary.PasswordSecret + "@h"} {
		writeConfig(t, in(name), "https://a.example", func(cluster, _ map[string]any) { cluster["proxy-url"] = proxy })
	}
	pod := []string{"KUBERNETES_SERVICE_HOST=fd00::1"}
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"nothing", Options{Environ: []string{"HOME=" + in("none")}},
			"no kubeconfig: KUBECONFIG is not set, this is not a pod (KUBERNETES_SERVICE_HOST is not set), and DIR/none/.kube/config does not exist"},
		{"named", Options{Kubeconfig: in("none")}, "kubeconfig DIR/none: no such file"},
		{"KUBECONFIG", Options{Environ: []string{"KUBECONFIG=" + in("none")}}, "kubeconfig KUBECONFIG=DIR/none: no such file"},
		{"directory", Options{Kubeconfig: dir}, "kubeconfig DIR: read DIR: "},
		{"empty", Options{Kubeconfig: in("empty")}, "kubeconfig DIR/empty: no cluster"},
		{"not YAML", Options{Kubeconfig: in("text")}, "kubeconfig DIR/text: not a valid kubeconfig, line 2 (check it with kubectl config view)"},
		{"wrong types", Options{Kubeconfig: in("types")}, "kubeconfig DIR/types: not a valid kubeconfig (check it with kubectl config view)"},
		{"no context", Options{Kubeconfig: in("current")}, "kubeconfig DIR/current: current-context is not set; available contexts: none"},
		{"another context", Options{Kubeconfig: in("a"), Context: "x"}, `kubeconfig DIR/a: context "x" does not exist; available contexts: "main", "other"`},
		{"certificate", Options{Kubeconfig: in("certificate")}, `kubeconfig DIR/certificate, context "main": invalid configuration: unable to read certificate-authority DIR/none.crt`},
		{"token", Options{Kubeconfig: in("token")}, `kubeconfig DIR/token, context "main": open DIR/none`},
		{"proxy", Options{Kubeconfig: in("proxy")}, `kubeconfig DIR/proxy, context "main": proxy-url must be an http, https or socks5 URL`},
		{"proxy scheme", Options{Kubeconfig: in("scheme")}, `kubeconfig DIR/scheme, context "main": proxy-url must be an http, https or socks5 URL`},
		{"pod", Options{Environ: pod}, "in-cluster: open DIR/pod/token: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := loadConfig(tt.o, in("pod"))
			if err == nil {
				t.Fatal("there is no error")
			}
			canary.AssertAbsent(t, "the error", err.Error())
			if got := normalizeMessage(err.Error(), dir); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestPodWithoutCertificate checks that a pod without ca.crt gets an error. client-go would trust
// the system's CAs instead.
func TestPodWithoutCertificate(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "token"), canary.TokenSecret)
	_, _, err := loadConfig(Options{Environ: []string{"KUBERNETES_SERVICE_HOST=h"}}, dir)
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "ca.crt")) {
		t.Errorf("got the error %v", err)
	}
}

// TestConfigUnreadable checks that the error for an unreadable kubeconfig contains its path and the
// reason.
func TestConfigUnreadable(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("this user may read every file")
	}
	path := writeFile(t, filepath.Join(t.TempDir(), "config"), canary.TokenSecret)
	must.Do(t, os.Chmod(path, 0))
	_, _, err := Load(Options{Kubeconfig: path})
	if want := "kubeconfig " + path + ": open " + path + ": permission denied"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestConfigConnects checks that requests are sent as the user of the selected context.
func TestConfigConnects(t *testing.T) {
	api := must.Get(testkube.New(testkube.Options{}))(t)
	defer api.Close()
	path := filepath.Join(t.TempDir(), "config")
	must.Do(t, api.Kubeconfig(path, "system:node:n1"))
	cfg, _, err := Load(Options{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	c := must.Get(kube.New(cfg, kube.Options{}))(t)
	who, err := c.WhoAmI(t.Context())
	if err != nil || who.Username != "system:node:n1" {
		t.Errorf("got %v, error %v", who, err)
	}
}

// TestCredentialsNamed checks that authentication errors state the kind of credentials that the
// client used.
func TestCredentialsNamed(t *testing.T) {
	api := must.Get(testkube.New(testkube.Options{}))(t)
	defer api.Close()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "token"), canary.TokenSecret+"-unknown")
	for _, tt := range []struct {
		name   string
		change func(user map[string]any)
		want   string
	}{
		{"token file", func(user map[string]any) { user["tokenFile"] = "token" }, "credentials (the token in " + filepath.Join(dir, "token") + ")"},
		{"token", func(user map[string]any) { user["token"] = canary.TokenSecret }, "credentials (a bearer token)"},
		{"password", func(user map[string]any) { user["username"], user["password"] = "u", canary.PasswordSecret }, "credentials (a user name and password)"},
		{"nothing", func(map[string]any) {}, "credentials (there are none)"},
		{"program", func(user map[string]any) {
			user["exec"] = map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "command": "./no-such-program", "interactiveMode": "Never", "args": []string{canary.ArgSecret}}
		}, "getting credentials: exec: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := writeConfig(t, filepath.Join(dir, "config"), api.URL(), func(cluster, user map[string]any) {
				cluster["certificate-authority-data"] = api.CA()
				delete(user, "token")
				tt.change(user)
			})
			cfg, _, err := Load(Options{Kubeconfig: path})
			if err != nil {
				t.Fatal(err)
			}
			c := must.Get(kube.New(cfg, kube.Options{}))(t)
			_, err = c.WhoAmI(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got the error %v, want %s", err, tt.want)
			}
			if err != nil {
				canary.AssertAbsent(t, "the error", err.Error())
			}
		})
	}
}
