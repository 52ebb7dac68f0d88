// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugin

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
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

// TestRunRawUnread: what is no plugin's answer is handed on as it is.
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
	x, err := c.RunRaw(t.Context(), strings.NewReader("the token is "+canary.Token), NewSecret(canary.Token))
	checkRun(t, x, err, StageExec)
	if want := "the token is [redacted]"; x.Stderr != want || !x.StderrSecret {
		t.Errorf("got stderr %q (a secret: %v), want %q", x.Stderr, x.StderrSecret, want)
	}
}

// TestRunRawBlockedReader: a plugin that does not wait for its input is not
// waited for on its account.
func TestRunRawBlockedReader(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	x, err := testCommand(t, "not-read", testStdout+"="+goodResponse).RunRaw(t.Context(), r)
	checkRun(t, x, err, "")
}

// TestGrace: a plugin that waits for the rest of its input gets SIGTERM, and
// ends by itself; without Grace it is killed.
func TestGrace(t *testing.T) {
	for name, tt := range map[string]struct {
		grace time.Duration
		exit  int
	}{
		"with grace":    {patience, exitFailed},
		"without grace": {0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := io.Pipe()
			defer w.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				// More than the pipe holds: when it is written, the plugin reads.
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

func TestGraceAtTheDeadline(t *testing.T) {
	f := newFIFOs(t)
	deadline := make(chan time.Time, 1)
	done := make(chan ran, 1)
	c := testCommand(t, "serve-hang", f.env...)
	go func() {
		x, err := c.run(limits{ctx: t.Context(), deadline: deadline, timeout: time.Minute, maxOutput: c.maxOutput(), polite: patience}, testRequest())
		done <- ran{x, err}
	}()
	f.pids(t, 1)
	deadline <- time.Now()
	x, err := f.wait(t, done)
	checkRun(t, x, err, StageTimeout)
	if x.ExitCode != exitFailed || !strings.Contains(x.Stderr, "terminated signal received") {
		t.Errorf("got exit code %d with stderr %q, want it to end of SIGTERM", x.ExitCode, x.Stderr)
	}
	f.allGone(t)
}

// TestGraceAsksOnce: a second SIGTERM would kill a plugin that handles one.
func TestGraceAsksOnce(t *testing.T) {
	f := newFIFOs(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := testCommand(t, "count-sigterm", f.env...)
	c.Grace = patience
	done := make(chan ran, 1)
	go func() {
		x, err := c.Run(ctx, testRequest())
		done <- ran{x, err}
	}()
	f.pids(t, 1)
	cancel()
	x, err := f.wait(t, done)
	checkRun(t, x, err, StageCanceled)
	if x.ExitCode != 0 || x.Stderr != "SIGTERM\n" {
		t.Errorf("got exit code %d with stderr %q, want one SIGTERM", x.ExitCode, x.Stderr)
	}
}

// TestGraceEnds: what ignores SIGTERM is killed, with what it has started.
func TestGraceEnds(t *testing.T) {
	f := newFIFOs(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := testCommand(t, "hang", f.env...)
	c.Grace = time.Millisecond
	done := make(chan ran, 1)
	go func() {
		x, err := c.Run(ctx, testRequest())
		done <- ran{x, err}
	}()
	f.pids(t, 1)
	cancel()
	x, err := f.wait(t, done)
	checkRun(t, x, err, StageCanceled)
	if x.ExitCode != -1 {
		t.Errorf("got exit code %d, want it killed", x.ExitCode)
	}
	f.allGone(t)
}

func TestStderrSecret(t *testing.T) {
	for name, tt := range map[string]struct {
		stderr string
		want   bool
	}{
		"nothing":              {"", false},
		"a harmless line":      {"asked the token service\n", false},
		"the password":         {"got " + canary.Password + "\n", true},
		"the token":            {"Authorization: Bearer " + canary.Token, true},
		"a configured value":   {canary.Env, false},
		"the user name":        {"ci", false},
		"half of the password": {canary.Password[:len(canary.Password)/2], false},
	} {
		t.Run(name, func(t *testing.T) {
			c := testCommand(t, "say", testStdout+"="+goodResponse, testStderr+"="+tt.stderr)
			c.Env = []string{"PASSWORD=" + canary.Env}
			x, err := c.Run(t.Context(), testRequest())
			if err != nil {
				t.Fatal(err)
			}
			if x.StderrSecret != tt.want {
				t.Errorf("got %v, want %v", x.StderrSecret, tt.want)
			}
		})
	}
}

func TestHolds(t *testing.T) {
	var cut headTail
	cut.Write([]byte(strings.Repeat(".", keep-3) + "open-sesame" + strings.Repeat(".", 3*keep)))
	whole := headTail{head: []byte("Authorization: Basic Y2k6b3Blbi1zZXNhbWU= and open-"), tail: []byte("pass")}
	for _, tt := range []struct {
		name    string
		in      headTail
		secrets []string
		want    bool
	}{
		{"in base64, behind a user name", whole, []string{"x", "open-sesame"}, true},
		{"across head and tail", whole, []string{"open-pass"}, true},
		{"too short to tell", whole, []string{"and", ""}, false},
		{"none", whole, nil, false},
		{"part of a word", headTail{head: []byte("read the password file")}, []string{"pass"}, false},
		{"a word, behind a part of one", headTail{head: []byte("password=pass")}, []string{"pass"}, true},
		{"cut in two", cut, []string{"open-sesame"}, false},
	} {
		if got := tt.in.holds(tt.secrets); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestLingering(t *testing.T) {
	x, err := testCommand(t, "say", testStdout+"="+goodResponse).Run(t.Context(), testRequest())
	checkRun(t, x, err, "")
	if x.Lingering {
		t.Error("a plugin that has started nothing has left something behind")
	}
	for name, exit := range map[string]string{"after an answer": "0", "after a failure": "3"} {
		t.Run(name, func(t *testing.T) {
			f := newFIFOs(t)
			c := testCommand(t, "fork", append(f.env, testStdout+"="+goodResponse, testExit+"="+exit)...)
			x, _ := c.Run(t.Context(), testRequest())
			if !x.Lingering {
				t.Error("the child that holds standard output was not noticed")
			}
			f.pids(t, 1)
			f.goOn(t)
			f.next(t) // it has written everything
			f.allGone(t)
		})
	}
}
