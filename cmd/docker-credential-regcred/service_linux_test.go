// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/serve"
	"github.com/regcred/regcred/internal/serve/client"
)

// startService starts a service with the host's configuration. It returns a function that stops it.
func (b *testHost) startService() (stop func()) {
	b.t.Helper()
	var log bytes.Buffer
	s := &serve.Server{
		Source: serve.Source{Config: b.filePath("c.yaml"), BinDir: b.dir}, Environ: append(os.Environ(), b.env...),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	socket := filepath.Join(b.t.TempDir(), "run", "s")
	l, release, err := serve.Listen(socket, serve.AllowList{})
	must.Do(b.t, err)
	must.Do(b.t, s.Start())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	b.env = append(b.env, client.SocketEnv+"="+socket)
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			must.Do(b.t, <-ended)
			release()
			canary.AssertAbsent(b.t, "the service's log", log.String())
		}
	}
	b.t.Cleanup(stop)
	return stop
}

func (b *testHost) setPassword(password string) {
	b.t.Helper()
	must.Do(b.t, os.WriteFile(filepath.Join(b.dir, "runs.password"), []byte(password), 0o600))
}

// getFromShell runs the helper with a shell as its parent, so that each run is for another process.
func (b *testHost) getFromShell(server string, environ ...string) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "sh", "-c", `"$0" get; exit $?`, b.filePath(programName))
	cmd.Env, cmd.Stdin = append(b.env, environ...), strings.NewReader(server)
	out, _ := cmd.Output()
	return string(out)
}

// TestService verifies that the helper gets a cached credential from the node's service, and when it
// runs the plugin itself.
func TestService(t *testing.T) {
	b := newTestHost(t, "rotating r.example", "failing f.example", "none n.example")
	stop := b.startService()
	b.setPassword("first")
	runs := func() int { // since the last call
		plugins, _ := b.takePluginRuns()
		return len(plugins)
	}
	for range 3 {
		if out := b.getFromShell("https://r.example/v1/"); !strings.Contains(out, `"Secret":"first"`) {
			t.Fatalf("got %q", out)
		}
	}
	if n := runs(); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
	other := b.filePath("other.yaml")
	must.Do(t, os.WriteFile(other, must.Get(os.ReadFile(b.filePath("c.yaml")))(t), 0o600))
	for _, tt := range []struct {
		name, server string
		environ      []string
		want         string
		runs         int
	}{
		{"another configuration", "r.example", []string{"REGCRED_CONFIG=" + other}, `"Secret":"first"`, 1},
		{"disabled", "r.example", []string{client.SocketEnv + "=" + client.SocketNone}, `"Secret":"first"`, 1},
		{"called by a plugin", "r.example", []string{recursionEnv + "=x"}, "remove the helper", 0},
		{"failed", "f.example", nil, "exit status 3", 2}, // also without the service, because its plugins may have fewer permissions
		{"no provider", "x.example", nil, notFound, 0},
		{"not a registry", "library/app", nil, notFound, 0},
		{"a repository, as Nomad sends it", "https://r.example/team/app", []string{"HOME="}, `"Secret":"first"`, 0},
	} {
		out := b.getFromShell(tt.server, tt.environ...)
		if n := runs(); !strings.Contains(out, strings.TrimSpace(tt.want)) || n != tt.runs {
			t.Errorf("%s: %q after %d runs, want %d", tt.name, out, n, tt.runs)
		}
	}
	stop()
	if out := b.getFromShell("r.example"); !strings.Contains(out, `"Secret":"first"`) || runs() != 1 {
		t.Errorf("after the service was stopped: %q", out)
	}
}

// TestServiceRotation verifies that a process that asks again gets the new password, as without the
// service. A credential helper cannot report that a registry rejected the old one.
func TestServiceRotation(t *testing.T) {
	b := newTestHost(t, "rotating r.example")
	b.startService()
	b.setPassword("first")
	secret := func() string {
		stdout, _ := b.runGet("r.example") // this process is the parent
		return stdout
	}
	if out := secret(); !strings.Contains(out, `"Secret":"first"`) {
		t.Fatalf("got %q", out)
	}
	b.setPassword("second")
	if out := b.getFromShell("r.example"); !strings.Contains(out, `"Secret":"first"`) {
		t.Errorf("another process does not get the cached credential: %q", out)
	}
	time.Sleep(1100 * time.Millisecond) // a response that is younger than a second is used
	if out := secret(); !strings.Contains(out, `"Secret":"second"`) {
		t.Errorf("the second request of a process: %q", out)
	}
	if out := b.getFromShell("r.example"); !strings.Contains(out, `"Secret":"second"`) {
		t.Errorf("another process after that: %q", out)
	}
}
