// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// slowCommand is a regcred command that waits for a plugin. The plugin closes the pipe when
// it starts.
type slowCommand struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
	pipe           string
	flags          []string // flags that select the plugin's configuration
	bin            string
}

func newSlowCommand(t *testing.T, args ...string) *slowCommand {
	t.Helper()
	regcred := must.Get(exec.LookPath("regcred"))(t)
	dir := t.TempDir()
	s := &slowCommand{bin: filepath.Join(dir, "bin"), pipe: filepath.Join(dir, "running")}
	must.Do(t, linkPlugins(s.bin))
	config := filepath.Join(dir, "c.yaml")
	const text = `{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [{"name": "slow",
		"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "matchImages": ["registry.example"], "defaultCacheDuration": "1m"}]}`
	must.Do(t, os.WriteFile(config, []byte(text), 0o644))
	must.Do(t, syscall.Mkfifo(s.pipe, 0o600))
	s.flags = []string{"--config", config, "--bin-dir", s.bin}
	s.Cmd = exec.Command(regcred, args...)
	s.Env = append(os.Environ(), "RUNNING="+s.pipe, "GORACE="+noRaceSleep)
	s.Stdout, s.Stderr = &s.stdout, &s.stderr
	return s
}

// waitUntilRunning waits until the plugin has opened and closed the pipe.
func (s *slowCommand) waitUntilRunning(t *testing.T) {
	t.Helper()
	must.Get(os.ReadFile(s.pipe))(t)
}

// startAndSignal starts the command and sends a signal while the plugin runs. The signal
// must kill the command.
func (s *slowCommand) startAndSignal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if signal.Ignored(sig) {
		t.Skip("the test itself runs with this signal ignored, and so would regcred")
	}
	must.Do(t, s.Start())
	s.waitUntilRunning(t)
	must.Do(t, s.Process.Signal(sig))
	s.checkKilledBy(t, sig)
}

func (s *slowCommand) checkKilledBy(t *testing.T, sig syscall.Signal) {
	t.Helper()
	err := s.Wait()
	exitErr, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exitErr.Sys().(syscall.WaitStatus).Signal() != sig {
		t.Errorf("got %v, want death by %v", err, sig)
	}
}

// TestSignal checks that a signal ends regcred while it waits for a plugin.
func TestSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			s := newSlowCommand(t)
			s.Args = append(s.Args, append([]string{"get", "registry.example/app"}, s.flags...)...)
			s.startAndSignal(t, sig)
			if got, want := s.stderr.String(), "error: interrupted\n"; got != want {
				t.Errorf("stderr %q, want %q", got, want)
			}
		})
	}
}

// TestSignalKeepsFindings checks that an interrupted "plugin test" prints its findings
// so far.
func TestSignalKeepsFindings(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			s := newSlowCommand(t, "plugin", "test", "slow", "-o", format, "--check", "binary-static", "--check", "base-answer", "--check", "exit-code")
			s.Args = append(s.Args, "--bin-dir", s.bin)
			s.startAndSignal(t, syscall.SIGINT)
			got, want := s.stdout.String(), []string{"binary-static", "1 check: ", "; interrupted before the remaining checks"}
			if format == "json" {
				want = []string{`"check": "binary-static"`, `"checks": 1,`, `"interrupted": true`, `"passed": false`}
			}
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("no %q in\n%s", w, got)
				}
			}
			if strings.Contains(got, "base-answer") || strings.Contains(got, "exit-code") || strings.Contains(got, "canceled") {
				t.Errorf("the interruption is reported:\n%s", got)
			}
			if got, want := s.stderr.String(), "error: interrupted\n"; got != want {
				t.Errorf("stderr %q, want %q", got, want)
			}
		})
	}
}

// TestSignalKeepsPulls checks that an interrupted pull prints the results so far.
func TestSignalKeepsPulls(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			s := newSlowCommand(t, "pull", "--layout", "lay", "-o", format, "127.0.0.1:1/nobody:v1", "registry.example/a", "registry.example/b")
			s.Args, s.Dir = append(s.Args, s.flags...), t.TempDir()
			s.startAndSignal(t, syscall.SIGINT)
			want := []string{"error   127.0.0.1:1/nobody:v1: ", "skipped registry.example/a: interrupted\n", "\nerror   3 images: 1 failed, 1 interrupted, 1 not begun\n"}
			if format == "json" {
				want = []string{`"canceled": 1`, `"failed": 1`, `"notBegun": 1`, `"image": "registry.example/b"`}
			}
			for _, w := range want {
				if got := s.stdout.String(); !strings.Contains(got, w) {
					t.Errorf("no %q in\n%s", w, got)
				}
			}
			if got, want := s.stderr.String(), "error: interrupted\n"; got != want {
				t.Errorf("stderr %q, want %q", got, want)
			}
		})
	}
}

// TestIgnoredSignal checks that signals ignored by nohup stay ignored.
func TestIgnoredSignal(t *testing.T) {
	got := terminationSignals(func(sig os.Signal) bool { return sig == syscall.SIGHUP })
	want := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestBrokenPipe checks that regcred exits without an error message and removes its files if the
// reader of standard output is gone, as with "| head".
func TestBrokenPipe(t *testing.T) {
	regcred := must.Get(exec.LookPath("regcred"))(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	temp := t.TempDir()
	cmd := exec.Command(regcred, "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.Stdout = w
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	w.Close()
	exitErr, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exitErr.ExitCode() != exitFailed {
		t.Errorf("got %v, want exit code %d", err, exitFailed)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr %q, want nothing", stderr.String())
	}
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestEarlySignal checks that a signal that arrives before takeOverSignals is not lost.
func TestEarlySignal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := takeOverSignals(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	if err := takeOverSignals(ctx); err == nil {
		t.Error("the signal that has ended the context is passed over")
	}
	left := make(chan struct{})
	close(left)
	for range 100 { // select chooses randomly among ready cases
		got := make(chan os.Signal, 1)
		got <- syscall.SIGTERM
		if sig := waitForSignal(got, left); sig != syscall.SIGTERM {
			t.Fatalf("got %v", sig)
		}
	}
	if sig := waitForSignal(make(chan os.Signal), left); sig != nil {
		t.Errorf("got %v, want none", sig)
	}
}
