// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugin

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

func TestRunRaw(t *testing.T) {
	for name, tt := range map[string]struct {
		stdin string
		want  Stage
		exit  int
	}{
		"a request":   {stdin: string(requestBytes(t, V1))},
		"garbage":     {stdin: "registry.example\n", want: StageExec, exit: exitUsage},
		"nothing":     {want: StageExec, exit: exitUsage},
		"much":        {stdin: strings.Repeat(" ", 4<<20), want: StageExec, exit: exitUsage},
		"v1beta1":     {stdin: string(requestBytes(t, V1Beta1)), want: StageAPIVersion},
		"two of them": {stdin: strings.Repeat(string(requestBytes(t, V1)), 2), want: StageExec, exit: exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			x, err := testCommand(t, "serve").RunRaw(t.Context(), strings.NewReader(tt.stdin))
			checkRun(t, x, err, tt.want)
			if x.ExitCode != tt.exit || !x.Stdin.IsZero() {
				t.Errorf("got exit code %d and a Stdin of %d bytes, want %d and none", x.ExitCode, len(x.Stdin.Reveal()), tt.exit)
			}
		})
	}
}

// TestRunRawUnread verifies that RunRaw without an APIVersion returns output that is not a
// plugin's response.
func TestRunRawUnread(t *testing.T) {
	c := testCommand(t, "say", testStdout+"=not JSON")
	c.APIVersion = ""
	x, err := c.RunRaw(t.Context(), strings.NewReader(""))
	if err != nil || x.Stdout.Reveal() != "not JSON" || x.Response != nil {
		t.Errorf("got %q, response %v, error %v", x.Stdout.Reveal(), x.Response, err)
	}
}

func TestRunRawSecrets(t *testing.T) {
	c := testCommand(t, "echo-token", testExit+"=1")
	x, err := c.RunRaw(t.Context(), strings.NewReader("the token is "+canary.TokenSecret), NewSecret(canary.TokenSecret))
	checkRun(t, x, err, StageExec)
	if want := "the token is [redacted]"; x.Stderr != want || !x.StderrSecret {
		t.Errorf("got stderr %q (a secret: %v), want %q", x.Stderr, x.StderrSecret, want)
	}
}

// TestRunRawBlockedReader verifies that the run ends when the plugin exits, even if the plugin
// has not read its input and the input blocks.
func TestRunRawBlockedReader(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	x, err := testCommand(t, "not-read", testStdout+"="+goodResponse).RunRaw(t.Context(), r)
	checkRun(t, x, err, "")
}

// TestGrace verifies that a plugin that waits for more input gets SIGTERM and exits. Without
// Grace, it is killed.
func TestGrace(t *testing.T) {
	for name, tt := range map[string]struct {
		grace time.Duration
		exit  int
	}{
		"with grace":    {time.Minute, exitFailed},
		"without grace": {0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := io.Pipe()
			defer w.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				// The input is larger than the pipe's buffer. When all of it has been written,
				// the plugin has started to read.
				w.Write([]byte(strings.Repeat(" ", 256<<10)))
				cancel()
			}()
			c := testCommand(t, "serve")
			c.Grace = tt.grace
			x, err := c.RunRaw(ctx, r)
			checkRun(t, x, err, StageCanceled)
			if x.ExitCode != tt.exit {
				t.Errorf("got exit code %d with stderr %q, want %d", x.ExitCode, x.Stderr, tt.exit)
			}
		})
	}
}

func TestStderrSecret(t *testing.T) {
	for name, tt := range map[string]struct {
		stderr string
		want   bool
	}{
		"nothing":              {"", false},
		"a harmless line":      {"asked the token service\n", false},
		"the password":         {"got " + canary.PasswordSecret + "\n", true},
		"the token":            {"Authorization: Bearer " + canary.TokenSecret, true},
		"a configured value":   {canary.EnvSecret, false},
		"the user name":        {"ci", false},
		"half of the password": {canary.PasswordSecret[:len(canary.PasswordSecret)/2], false},
	} {
		t.Run(name, func(t *testing.T) {
			c := testCommand(t, "say", testStdout+"="+goodResponse, testStderr+"="+tt.stderr)
			c.Env = NewSecrets("PASSWORD=" + canary.EnvSecret)
			x := must.Get(c.Run(t.Context(), testRequest()))(t)
			if x.StderrSecret != tt.want {
				t.Errorf("got %v, want %v", x.StderrSecret, tt.want)
			}
		})
	}
}

// TestChildHoldsStdout verifies that Lingering reports a child process that keeps standard
// output open.
func TestChildHoldsStdout(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "go")
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	for mode, want := range map[string]bool{"say": false, "fork": true} {
		x, err := testCommand(t, mode, testStdout+"="+goodResponse, testFIFO+"="+fifo).Run(t.Context(), testRequest())
		checkRun(t, x, err, "")
		if x.Lingering != want {
			t.Errorf("%s: Lingering is %v, want %v", mode, x.Lingering, want)
		}
	}
	release, err := os.OpenFile(fifo, os.O_WRONLY, 0) // blocks until the child has opened the FIFO
	if err != nil {
		t.Fatal(err)
	}
	release.Close()
}
