// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// TestMain makes the test binary run as the helper or a plugin if it is called by that name.
func TestMain(m *testing.M) {
	self := filepath.Base(os.Args[0])
	if self == programName {
		os.Exit(runAsHelper())
	}
	if play, ok := testPlugins[self]; ok {
		runAsPlugin(self, play)
	}
	os.Exit(m.Run())
}

// runAsHelper runs the helper with the timeouts and the root directory from the test's environment
// variables.
func runAsHelper() int {
	version = "v1.2.3-test"
	l := timeouts{input: time.Minute, plugin: time.Minute, run: time.Minute}
	for env, limit := range map[string]*time.Duration{"TEST_INPUT": &l.input, "TEST_PLUGIN": &l.plugin, "TEST_RUN": &l.run} {
		if s := os.Getenv(env); s != "" {
			*limit, _ = time.ParseDuration(s)
		}
	}
	return helperMain(os.Getenv("TEST_ROOT")+"/", l)
}

// testPlugins maps the name of each plugin to its behavior. A plugin returns credentials only for the host in the
// request.
var testPlugins = map[string]func(host string){
	"good":     func(host string) { fmt.Print(formatResponse(host, "user", canary.PasswordSecret)) },
	"second":   func(host string) { fmt.Print(formatResponse(host, "second", canary.PasswordSecret)) },
	"identity": func(host string) { fmt.Print(formatResponse(host, "<token>", canary.TokenSecret)) },
	"acr": func(host string) {
		fmt.Print(formatResponse(host, "00000000-0000-0000-0000-000000000000", canary.TokenSecret))
	},
	"nameless": func(host string) { fmt.Print(formatResponse(host, "", canary.PasswordSecret)) },
	"pods":     func(host string) { fmt.Print(formatResponse(host, "pod", canary.PasswordSecret)) },
	"none":     func(string) { fmt.Print(formatResponse("elsewhere.example", "user", canary.PasswordSecret)) },
	"garbage":  func(string) { fmt.Print("password: " + canary.PasswordSecret) },
	"failing": func(string) {
		fmt.Fprint(os.Stderr, "the cloud is\n\x1b[31mdown")
		os.Exit(3)
	},
	"hanging": func(string) { time.Sleep(time.Hour) },
	"asking": func(host string) { // calls the helper, like dockerconfig-credential-provider with a file that configures the helper
		cmd := exec.Command(filepath.Join(filepath.Dir(os.Args[0]), programName), "get")
		cmd.Stdin = strings.NewReader(host)
		said, _ := cmd.Output()
		os.WriteFile(os.Getenv("TEST_RUNS")+".said", said, 0o600)
		os.Exit(1)
	},
}

// runAsPlugin runs as the plugin self, and records the run and its process ID.
func runAsPlugin(self string, play func(host string)) {
	runs, err := os.OpenFile(os.Getenv("TEST_RUNS"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(runs, "%s %d\n", self, os.Getpid())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(plugin.Serve(context.Background(), plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
		play(req.Registry())
		os.Exit(0) // play wrote the response
		return nil, nil
	}), plugin.ServeOptions{}))
}

// formatResponse returns a plugin response with one credential for key.
func formatResponse(key, username, password string) string {
	return fmt.Sprintf(`{"kind":"CredentialProviderResponse","apiVersion":%q,"cacheKeyType":"Registry","cacheDuration":"0s","auth":{%q:{"username":%q,"password":%q}}}`,
		plugin.V1, key, username, password)
}

// providersConfig returns a configuration with a provider for each entry, such as "good r.example
// *.s.example". A provider whose entry begins with "pod " has tokenAttributes.
func providersConfig(entries ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n")
	for _, entry := range entries {
		entry, pod := strings.CutPrefix(entry, "pod ")
		name, patterns, _ := strings.Cut(entry, " ")
		fmt.Fprintf(&b, "- name: %s\n  apiVersion: %s\n  matchImages: [%q]\n  defaultCacheDuration: 0s\n",
			name, plugin.V1, strings.Join(strings.Fields(patterns), `", "`))
		if pod {
			b.WriteString("  tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true}\n")
		}
	}
	return strings.ReplaceAll(b.String(), `\"`, `"`)
}

// testHost is a directory with the helper, the plugins and a configuration.
type testHost struct {
	t   *testing.T
	dir string
	env []string
}

func newTestHost(t *testing.T, entries ...string) *testHost {
	t.Helper()
	dir := t.TempDir()
	self := must.Get(os.Executable())(t)
	link := func(name string) {
		must.Do(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	link(programName)
	for name := range testPlugins {
		link(name)
	}
	b := &testHost{t: t, dir: dir, env: []string{"GORACE=atexit_sleep_ms=0", "TEST_RUNS=" + filepath.Join(dir, "runs")}}
	b.writeConfig(entries...)
	b.env = append(b.env, "REGCRED_CONFIG="+b.filePath("c.yaml"), "REGCRED_BIN_DIR="+dir)
	return b
}

func (b *testHost) filePath(name string) string { return filepath.Join(b.dir, name) }

func (b *testHost) writeConfig(entries ...string) { b.writeFile("c.yaml", providersConfig(entries...)) }

func (b *testHost) writeFile(name, text string) {
	b.t.Helper()
	must.Do(b.t, os.MkdirAll(filepath.Dir(b.filePath(name)), 0o755))
	must.Do(b.t, os.WriteFile(b.filePath(name), []byte(text), 0o600))
}

// helperCommand returns a command that runs the helper, with additions to its environment.
func (b *testHost) helperCommand(stdin string, args []string, env ...string) *exec.Cmd {
	cmd := exec.Command(b.filePath(programName), args...)
	cmd.Env = slices.Concat(b.env, env)
	cmd.Dir = b.dir
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

// runGet runs the helper's "get" command for server, and returns its output and exit code.
func (b *testHost) runGet(server string, env ...string) (stdout string, code int) {
	b.t.Helper()
	return b.run(b.helperCommand(server, []string{"get"}, env...))
}

// run runs a command and returns its output and exit code. Standard error must be empty.
func (b *testHost) run(cmd *exec.Cmd) (stdout string, code int) {
	b.t.Helper()
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		b.t.Fatal(err)
	} else if ok {
		code = exit.ExitCode()
	}
	if stderr.Len() > 0 {
		b.t.Errorf("standard error: %q", stderr.String())
	}
	return out.String(), code
}

// takePluginRuns returns the plugins that have run since the last call, with their process IDs.
func (b *testHost) takePluginRuns() (plugins []string, processes []int) {
	data, _ := os.ReadFile(b.filePath("runs"))
	os.Remove(b.filePath("runs"))
	for line := range strings.Lines(string(data)) {
		var plugin string
		var process int
		fmt.Sscan(line, &plugin, &process)
		plugins, processes = append(plugins, plugin), append(processes, process)
	}
	return plugins, processes
}

// checkFailure checks that a run failed and printed one line. The line must contain all of wants
// and no secret. Clients must not recognize it as "credentials not found".
func (b *testHost) checkFailure(what, stdout string, code int, wants ...string) {
	b.t.Helper()
	if code != 1 || strings.Count(stdout, "\n") != 1 || strings.Contains(stdout, "\x1b") || !strings.HasSuffix(stdout, "\n") || strings.Contains(stdout, "credentials not found") {
		b.t.Errorf("%s: exit code %d, %q: want one line with the cause", what, code, stdout)
	}
	for _, want := range wants {
		if !strings.Contains(stdout, want) {
			b.t.Errorf("%s: %q does not have %q", what, stdout, want)
		}
	}
	canary.AssertAbsent(b.t, what, stdout)
}
