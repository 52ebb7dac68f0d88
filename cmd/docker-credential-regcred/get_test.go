// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/docker/docker-credential-helpers/client"
	"github.com/docker/docker-credential-helpers/credentials"

	"github.com/regcred/regcred/internal/canary"
)

// notFound is the error text for missing credentials that every client recognizes.
const notFound = "credentials not found in native keychain\n"

// TestGet verifies that each request runs at most one plugin, at most once.
func TestGet(t *testing.T) {
	b := newTestHost(t, "good r.example *.glob.example localhost:5000 [::1]:5000 docker.io", "second team.example/a", "none none.example", "identity token.example", "acr acr.example", "pod pods pods.example")
	for _, tt := range []struct{ server, username string }{
		{"r.example", "user"},
		{"r.example\n", "user"},
		{"  r.example\r\n", "user"},
		{"r.example:443", "user"},
		{"https://r.example", "user"},
		{"https://r.example/v2/", "user"},
		{"http://r.example", "user"},
		{"r.example/team/app", "user"},
		{"a.glob.example", "user"},
		{"localhost:5000", "user"},
		{"[::1]:5000", "user"},
		{"https://index.docker.io/v1/", "user"},
		{"index.docker.io", "user"},
		{"docker.io", "user"},
		{"registry-1.docker.io", "user"},
		{"index.docker.io/library/nginx", "user"},
		{"team.example/a/app", "second"},
		{"token.example", "<token>"},
		{"acr.example", "00000000-0000-0000-0000-000000000000"},
		{"team.example", ""},
		{"team.example/b", ""},
		{"r.example:5000", ""},
		{"R.example", ""},
		{"glob.example", ""},
		{"pods.example", ""}, // this provider serves only pods
		{"nobody.example", ""},
		{"https://index.docker.io/v1/refresh-token", ""}, // sent by "docker logout"
	} {
		stdout, code := b.runGet(tt.server)
		plugins, _ := b.takePluginRuns()
		if tt.username == "" {
			if stdout != notFound || code != 1 || len(plugins) != 0 {
				t.Errorf("%q: exit code %d, %q, runs of %q; want not found, and no run", tt.server, code, stdout, plugins)
			}
			continue
		}
		secret := canary.PasswordSecret
		if strings.Contains(tt.username, "0000") || tt.username == "<token>" {
			secret = canary.TokenSecret
		}
		want := fmt.Sprintf(`{"ServerURL":%q,"Username":%q,"Secret":%q}`+"\n", strings.TrimSpace(tt.server), tt.username, secret)
		if got := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(stdout); got != want || code != 0 || len(plugins) != 1 {
			t.Errorf("%q: exit code %d, runs of %q, or another response than wanted", tt.server, code, plugins)
		}
	}
	stdout, code := b.runGet("none.example")
	if plugins, _ := b.takePluginRuns(); stdout != notFound || code != 1 || len(plugins) != 1 {
		t.Errorf("an empty response: exit code %d, %q, runs of %q", code, stdout, plugins)
	}
}

// TestNoUserName verifies that a credential without a user name is treated as missing, because clients would pull
// anonymously with it.
func TestNoUserName(t *testing.T) {
	stdout, code := newTestHost(t, "nameless r.example").runGet("r.example")
	if code != 1 || !strings.Contains(stdout, `the credential from provider "nameless" has no user name`) {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}

// TestLongError verifies that a long error message is truncated.
func TestLongError(t *testing.T) {
	got := errorLine(errors.New(strings.Repeat("é ", maxErrorLength)))
	if len(got) > maxErrorLength+len("…") || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes", len(got))
	}
}

// TestClient verifies the helper with the client library that most clients use.
func TestClient(t *testing.T) {
	b := newTestHost(t, "good r.example docker.io", "failing f.example", "identity *.token.example")
	env := map[string]string{}
	for _, entry := range b.env {
		key, value, _ := strings.Cut(entry, "=")
		env[key] = value
	}
	helper := client.NewShellProgramFuncWithEnv(b.filePath(programName), &env)
	got, err := client.Get(helper, "https://r.example")
	if err != nil || got.ServerURL != "https://r.example" || got.Username != "user" || got.Secret != canary.PasswordSecret {
		t.Errorf("get: %v, or other credentials than wanted", err)
	}
	if got, err := client.Get(helper, "a.token.example"); err != nil || got.Username != "<token>" || got.Secret != canary.TokenSecret {
		t.Errorf("get of an identity token: %v, or other credentials than wanted", err)
	}
	if _, err := client.Get(helper, "nobody.example"); !credentials.IsErrCredentialsNotFound(err) {
		t.Errorf("get of what nobody has: %v", err)
	}
	if _, err := client.Get(helper, "f.example"); err == nil || credentials.IsErrCredentialsNotFound(err) {
		t.Errorf("get where the provider fails: %v", err)
	}
	if _, err := client.Get(helper, ""); !strings.Contains(fmt.Sprint(err), credentials.NewErrCredentialsMissingServerURL().Error()) {
		t.Errorf("get of nothing: %v", err)
	}
	list, err := client.List(helper)
	if want := map[string]string{"r.example": "", "docker.io": "", "https://index.docker.io/v1/": "", "f.example": ""}; err != nil || fmt.Sprint(list) != fmt.Sprint(want) {
		t.Errorf("list: %v, %v", list, err)
	}
	if err := client.Erase(helper, "r.example"); err != nil {
		t.Errorf("erase: %v", err)
	}
	err = client.Store(helper, &credentials.Credentials{ServerURL: "r.example", Username: "user", Secret: canary.PasswordSecret})
	if err == nil || !strings.Contains(err.Error(), "they come from this machine's credential providers") {
		t.Errorf("store: %v", err)
	}
	canary.AssertAbsent(t, "store", fmt.Sprint(err))
	if plugins, _ := b.takePluginRuns(); !slices.Equal(plugins, []string{"good", "identity", "failing"}) {
		t.Errorf("runs of %q: only get runs a plugin", plugins)
	}
}

// TestOrder verifies that the first credential in the kubelet's order wins, even if other providers fail.
func TestOrder(t *testing.T) {
	for want, entries := range map[string][]string{
		"user": {"good r.example", "second r.example"},
		// The helper skips a credential without a user name, because clients would pull anonymously
		// with it.
		"user ":  {"nameless r.example", "good r.example"},
		"second": {"failing r.example", "second r.example", "good r.example", "garbage r.example"},
	} {
		stdout, code := newTestHost(t, entries...).runGet("r.example")
		if code != 0 || !strings.Contains(stdout, fmt.Sprintf(`"Username":%q`, strings.TrimSpace(want))) {
			t.Errorf("%q: exit code %d, or another credential than %q's", entries, code, want)
		}
	}
}

// TestFailures verifies that no failure is reported as "credentials not found".
func TestFailures(t *testing.T) {
	for what, tt := range map[string]struct {
		entries []string
		wants   []string
	}{
		"fails":     {[]string{"failing r.example", "none r.example"}, []string{programName + ": no credentials for r.example: ", `plugin "failing"`, "exit status 3", "31mdown"}},
		"garbage":   {[]string{"garbage r.example"}, []string{`plugin "garbage"`}},
		"missing":   {[]string{"missing r.example"}, []string{`plugin "missing"`, "no such file"}},
		"hangs":     {[]string{"hanging r.example"}, []string{`plugin "hanging"`, "no response within 300ms"}},
		"asks back": {[]string{"asking r.example"}, []string{`plugin "asking"`, "exit status 1"}},
		"refused":   {[]string{"good r.example", "good s.example"}, []string{"regcred validate"}},
	} {
		b := newTestHost(t, tt.entries...)
		deadline := "1m"
		if what == "hangs" {
			deadline = "300ms"
		}
		stdout, code := b.runGet("r.example", "TEST_PLUGIN="+deadline)
		b.checkFailure(what, stdout, code, tt.wants...)
	}
}

// TestProviderNamingHelperIsNotCalled verifies that the helper returns an error to a provider that
// calls it, and runs no provider for that call.
func TestProviderNamingHelperIsNotCalled(t *testing.T) {
	b := newTestHost(t, "asking r.example", "good r.example")
	if _, code := b.runGet("r.example"); code != 0 {
		t.Errorf("exit code %d: the other provider has a credential", code)
	}
	if plugins, _ := b.takePluginRuns(); len(plugins) != 2 {
		t.Errorf("runs of %q, want one of each", plugins)
	}
	b.checkFailure("what the provider was told", b.readFile("runs.said"), 1, programName+" was called by a credential provider that it had started itself", "(REGCRED_ASKED_BY is set)", "remove the helper from the docker config file")
}

// TestDockerConfigFiles verifies that Docker's own files and a file in the working directory are ignored.
func TestDockerConfigFiles(t *testing.T) {
	b := newTestHost(t, "good r.example")
	const file = `{"credsStore":"regcred","credHelpers":{"own.example":"regcred"},"auths":{"own.example":{"auth":"dXNlcjpjYW5hcnktcGFzc3dvcmQtNGIxZA=="}}}`
	for _, name := range []string{"config.json", ".docker/config.json", "docker/config.json", ".dockercfg", "root/var/lib/kubelet/config.json"} {
		b.writeFile(name, file)
	}
	env := []string{"HOME=" + b.dir, "DOCKER_CONFIG=" + b.filePath("docker"), "TEST_ROOT=" + b.filePath("root")}
	if stdout, code := b.runGet("own.example", env...); stdout != notFound || code != 1 {
		t.Errorf("exit code %d, or a response from a file", code)
	}
	b.writeFile("config.json", "another program's")
	if stdout, code := b.runGet("own.example", env...); stdout != notFound || code != 1 {
		t.Errorf("exit code %d, %q: that file is not ours", code, stdout)
	}
}

func TestConcurrentGets(t *testing.T) {
	b := newTestHost(t, "good r.example")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if out, err := b.helperCommand("r.example", []string{"get"}).Output(); err != nil || !strings.Contains(string(out), canary.PasswordSecret) {
				t.Errorf("%v, or another response than wanted", err)
			}
		})
	}
	all.Wait()
	if plugins, _ := b.takePluginRuns(); len(plugins) != 8 {
		t.Errorf("%d runs, want one for each: nothing is kept", len(plugins))
	}
}

func TestReplacedConfiguration(t *testing.T) {
	b := newTestHost(t, "good r.example")
	for _, tt := range []struct{ entries, want string }{
		{"good r.example", `"Username":"user"`}, {"second r.example", `"Username":"second"`}, {"good s.example", notFound},
	} {
		b.writeConfig(tt.entries)
		if stdout, _ := b.runGet("r.example"); !strings.Contains(stdout, tt.want) {
			t.Errorf("%s: want a response with %q", tt.entries, tt.want)
		}
	}
	if left, _ := filepath.Glob(b.filePath("*")); slices.ContainsFunc(left, func(p string) bool { return strings.Contains(p, "cache") }) {
		t.Errorf("something was kept: %q", left)
	}
}
