// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// checkRun fails the test if err is not an ExecError of stage want, or if any output contains a
// secret. If want is "", err must be nil.
func checkRun(t *testing.T, x *Exchange, err error, want Stage) *ExecError {
	t.Helper()
	if x == nil {
		t.Fatal("no Exchange")
	}
	checkMasked(t, x, err)
	if want == "" {
		if err != nil {
			t.Fatalf("got error %v", err)
		}
		if x.Response == nil {
			t.Fatal("no Response")
		}
		return nil
	}
	var e *ExecError
	if !errors.As(err, &e) {
		t.Fatalf("got error %v of type %T, want *ExecError", err, err)
	}
	if e.Stage != want {
		t.Errorf("got stage %q (%v), want %q", e.Stage, e, want)
	}
	if x.Response != nil {
		t.Error("a failed run has a Response")
	}
	if e.Stderr != x.Stderr || e.ExitCode != x.ExitCode || e.Name != "test" {
		t.Errorf("ExecError %+v does not agree with its Exchange", e)
	}
	return e
}

func checkMasked(t *testing.T, x *Exchange, err error) {
	t.Helper()
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		canary.AssertAbsent(t, "Exchange with "+format, fmt.Sprintf(format, *x))
		canary.AssertAbsent(t, "Response with "+format, fmt.Sprintf(format, x.Response))
		canary.AssertAbsent(t, "error with "+format, fmt.Sprintf(format, err))
	}
	canary.AssertAbsent(t, "Stderr", x.Stderr)
	for e := err; e != nil; e = errors.Unwrap(e) {
		canary.AssertAbsent(t, "a cause", fmt.Sprintf("%+v %#v", e, e))
	}
}

func TestCommandGood(t *testing.T) {
	c := testCommand(t, "say", testStdout+"="+goodResponse, testStderr+"=hello\n")
	x, err := c.Run(t.Context(), testRequest())
	checkRun(t, x, err, "")
	want := &Response{
		APIVersion:    V1,
		CacheKeyType:  CacheRegistry,
		CacheDuration: new(10 * time.Minute),
		Auth:          map[string]AuthConfig{"registry.example": {Username: "ci", Password: NewSecret(canary.PasswordSecret)}},
	}
	if !cmp.Equal(want, x.Response) {
		t.Error("wrong Response")
	}
	if x.Stdout.Reveal() != goodResponse {
		t.Error("Stdout is not what the plugin wrote")
	}
	req := testRequest()
	req.APIVersion = V1
	if want, _ := EncodeRequest(req); x.Stdin.Reveal() != string(want) {
		t.Error("Stdin is not the encoded request")
	}
	if x.Stderr != "hello\n" || x.ExitCode != 0 || x.Started.IsZero() || x.Duration <= 0 {
		t.Errorf("got %+v", x)
	}

	resp, err := c.GetCredentials(t.Context(), testRequest())
	if err != nil || !cmp.Equal(want, resp) {
		t.Errorf("GetCredentials: got error %v, or another Response", err)
	}
}

func TestCommandStages(t *testing.T) {
	answer := func(old, new string) string { return strings.Replace(goodResponse, old, new, 1) }
	for name, tt := range map[string]struct {
		mode, stdout string
		env          []string
		want         Stage
		message      string
	}{
		"exit 1":                   {stdout: goodResponse, env: []string{testExit + "=1"}, want: StageExec, message: "exec: exit status 1"},
		"exit 1 without an answer": {env: []string{testExit + "=1", testStderr + "=no token service\n"}, want: StageExec, message: `exit status 1; stderr: "no token service"`},
		"exit 127":                 {env: []string{testExit + "=127"}, want: StageExec, message: "exit status 127"},
		"killed by somebody else":  {mode: "killed", want: StageExec, message: "signal: killed"},
		"never reads stdin":        {mode: "not-read", stdout: goodResponse},
		"closes stdin early":       {mode: "close-stdin", stdout: goodResponse},
		"negative duration":        {stdout: answer("10m0s", "-10m")},
		"huge duration":            {stdout: answer("10m0s", "2540400h10m10s")},
		"duration too huge":        {stdout: answer("10m0s", "99999999999h"), want: StageDecode, message: "cacheDuration: must be a duration"},
		"empty auth":               {stdout: `{"kind":"CredentialProviderResponse","apiVersion":"` + V1 + `","cacheKeyType":"Image"}`},
		"no newline at the end":    {stdout: strings.TrimSpace(goodResponse)},
		"white space around":       {stdout: " \r\n\t" + goodResponse + "\n \n"},

		"empty stdout":      {want: StageOutput, message: "offset 0: the plugin exited 0 and wrote nothing"},
		"white space alone": {stdout: " \n", want: StageOutput, message: "offset 0: the plugin exited 0 and wrote nothing"},
		"half a JSON":       {stdout: goodResponse[:len(goodResponse)/2], want: StageOutput, message: fmt.Sprintf("offset %d: unexpected end of JSON", len(goodResponse)/2)},
		"two JSONs":         {stdout: goodResponse + goodResponse, want: StageOutput, message: fmt.Sprintf("offset %d: unexpected data after the JSON value", len(goodResponse))},
		"trailing garbage":  {stdout: goodResponse + "done " + canary.PasswordSecret, want: StageOutput, message: "unexpected data after the JSON value"},
		"text":              {stdout: "password: " + canary.PasswordSecret, want: StageOutput, message: "offset 0: invalid JSON"},
		"not UTF-8":         {stdout: "\xff\xfe{}", want: StageOutput, message: "invalid JSON"},
		"byte order mark":   {stdout: "\ufeff" + goodResponse, want: StageOutput, message: "offset 0: invalid JSON"},

		"wrong version":    {stdout: answer("/v1\"", "/v1beta1\""), want: StageAPIVersion, message: "apiVersion: must be " + V1},
		"no version":       {stdout: `{"kind":"CredentialProviderResponse"}`, want: StageAPIVersion, message: "apiVersion: must be " + V1},
		"null":             {stdout: "null", want: StageAPIVersion, message: "apiVersion: must be"},
		"version a number": {stdout: `{"apiVersion":1}`, want: StageAPIVersion, message: "apiVersion: must be"},

		"a list":            {stdout: "[" + goodResponse + "]", want: StageDecode, message: "offset 0: must be an object"},
		"wrong kind":        {stdout: answer("ProviderResponse", "ProviderRequest"), want: StageDecode, message: "kind: must be CredentialProviderResponse"},
		"wrong-case field":  {stdout: answer("cacheKeyType", "cachekeytype"), want: StageDecode, message: "offset 89: cachekeytype: unknown field; use cacheKeyType"},
		"duplicate field":   {stdout: answer(`"auth":`, `"auth":null,"auth":`), want: StageDecode, message: "auth: duplicate field"},
		"unknown field":     {stdout: answer(`"auth":`, `"expires":"`+canary.PasswordSecret+`","auth":`), want: StageDecode, message: "expires: unknown field"},
		"password a number": {stdout: answer(`"`+canary.PasswordSecret+`"`, `12345678`), want: StageDecode, message: "auth.registry.example.password: must be a string"},

		"bad cacheKeyType":   {stdout: answer(`"Registry"`, `"ServiceAccount"`), want: StageCacheKeyType, message: "must be Image, Registry or Global"},
		"empty cacheKeyType": {stdout: answer(`"Registry"`, `""`), want: StageCacheKeyType, message: "must be Image, Registry or Global"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mode := tt.mode
			if mode == "" {
				mode = "say"
			}
			c := testCommand(t, mode, append(tt.env, testStdout+"="+tt.stdout)...)
			x, err := c.Run(t.Context(), testRequest())
			e := checkRun(t, x, err, tt.want)
			if e != nil && !strings.Contains(e.Error(), tt.message) {
				t.Errorf("got  %v\nwant …%s…", e, tt.message)
			}
			if tt.mode != "killed" && x.Stdout.Reveal() != tt.stdout {
				t.Error("Stdout is not what the plugin wrote")
			}
		})
	}
}

func TestCommandLongRequestNotRead(t *testing.T) {
	// The request is larger than a pipe's buffer, so it cannot be written completely.
	req := testRequest()
	req.ServiceAccountAnnotations = map[string]string{"example.com/long": strings.Repeat("x", 256<<10)}
	for _, mode := range []string{"not-read", "close-stdin"} {
		x, err := testCommand(t, mode, testStdout+"="+goodResponse).Run(t.Context(), req)
		checkRun(t, x, err, "")
	}
}

func TestCommandVersions(t *testing.T) {
	for _, version := range []string{V1, V1Beta1, V1Alpha1} {
		c := testCommand(t, "echo-token", testStdout+"="+strings.Replace(goodResponse, V1, version, 1))
		c.APIVersion = version
		x, err := c.Run(t.Context(), testRequest())
		checkRun(t, x, err, "")
		if got := strings.Contains(x.Stderr, "serviceAccountToken"); got != (version == V1) {
			t.Errorf("%s: a service-account token is sent: %v", version, got)
		}
	}
	c := testCommand(t, "say")
	c.APIVersion = "v1"
	x, err := c.Run(t.Context(), testRequest())
	checkRun(t, x, err, StageStart)
}

func TestCommandEnvironment(t *testing.T) {
	dir := t.TempDir()
	c := testCommand(t, "env", testStdout+"="+goodResponse, "BOTH=inherited", "ONE=1")
	c.Env = NewSecrets("BOTH=configured", "SECRET="+canary.EnvSecret, "SHORT=ok")
	c.Args = NewSecrets("get-it", "--token="+canary.ArgSecret, canary.ArgSecret, "-v")
	c.Dir = dir
	c.Place = func(field string, index int) string {
		if field == "args" {
			return ""
		}
		return fmt.Sprintf("%s of %d", field, index)
	}
	x, err := c.Run(t.Context(), testRequest())
	checkRun(t, x, err, "")
	lines := strings.Split(x.Stderr, "\n")
	for _, want := range []string{
		"ONE=1", "BOTH=[redacted: env[0], env of 0]", "SECRET=[redacted: env[1], env of 1]", "SHORT=ok",
		c.Path, "get-it", "--token=[redacted: args[1]]", "[redacted: args[1]]", "-v", "dir=" + dir,
	} {
		if !containsLine(lines, want) {
			t.Errorf("the plugin did not report %q", want)
		}
	}
	if containsLine(lines, "BOTH=inherited") {
		t.Error("Env does not win over Environ")
	}

	c.Environ = []string{testMode + "=env", testStdout + "=" + goodResponse}
	c.Env = nil
	x, err = c.Run(t.Context(), testRequest())
	checkRun(t, x, err, "")
	if strings.Contains(x.Stderr, "PATH=") {
		t.Error("an Environ that is given does not replace that of the process")
	}
	c.Environ = []string{} // not nil, which would mean os.Environ
	if got := c.environ(); len(got) != 0 {
		t.Error("an empty Environ inherits that of the process")
	}

	t.Setenv("PLUGIN_TEST_INHERITED", "yes")
	c.Environ, c.Env = nil, NewSecrets(testMode+"=env", testStdout+"="+goodResponse)
	x, err = c.Run(t.Context(), testRequest())
	checkRun(t, x, err, "")
	if !containsLine(strings.Split(x.Stderr, "\n"), "PLUGIN_TEST_INHERITED=yes") {
		t.Error("a nil Environ does not inherit that of the process")
	}
}

func containsLine(lines []string, want string) bool {
	for _, line := range lines {
		if line == want {
			return true
		}
	}
	return false
}

func TestCommandHidesSecrets(t *testing.T) {
	c := Command{Path: "/bin/plug", Env: NewSecrets("A=" + canary.EnvSecret), Args: NewSecrets(canary.ArgSecret)}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for what, v := range map[string]any{"value": c, "pointer": &c, "field": struct{ C Command }{c}, "unexported field": struct{ c Command }{c}} {
			canary.AssertAbsent(t, what+" with "+format, fmt.Sprintf(format, v))
		}
	}
}

func TestCommandNoPathSearch(t *testing.T) {
	dir := t.TempDir()
	file := copySelf(t, "plug")
	t.Setenv("PATH", filepath.Dir(file))
	c := testCommand(t, "say", testStdout+"="+goodResponse)
	c.Path, c.Dir = "plug", dir
	x, err := c.Run(t.Context(), testRequest())
	checkRun(t, x, err, StageStart)

	c.Dir = filepath.Dir(file)
	x, err = c.Run(t.Context(), testRequest())
	checkRun(t, x, err, "")
}

func TestCommandStderr(t *testing.T) {
	canaries := canary.PasswordSecret + " " + canary.TokenSecret + "\n"
	for name, tt := range map[string]struct{ stderr, want string }{
		"secrets":            {"login ci:" + canaries, "login ci:[redacted] [redacted]\n"},
		"not UTF-8":          {"caf\xe9\n", "caf\ufffd\n"},
		"control characters": {"\x1b[2Jgone\x00\a\u202e\r\n\tnext\r", "\\x1b[2Jgone\\x00\\a\\u202e\n\tnext\\r"},
	} {
		t.Run(name, func(t *testing.T) {
			// An environment variable cannot contain a NUL, so write the text to a file.
			file := filepath.Join(t.TempDir(), "stderr")
			must.Do(t, os.WriteFile(file, []byte(tt.stderr), 0o600))
			for _, exit := range []string{"0", "1"} {
				c := testCommand(t, "say-file", testStdout+"="+goodResponse, testStderr+"="+file, testExit+"="+exit)
				x, err := c.Run(t.Context(), testRequest())
				checkMasked(t, x, err)
				if x.Stderr != tt.want {
					t.Errorf("exit %s: got %q, want %q", exit, x.Stderr, tt.want)
				}
			}
		})
	}
}

func TestCommandDeadline(t *testing.T) {
	c := testCommand(t, "hang", testStdout+"="+goodResponse, testStderr+"=waiting\n")
	c.Timeout = 50 * time.Millisecond // so short that the plugin may not have started
	x, err := c.Run(t.Context(), testRequest())
	e := checkRun(t, x, err, StageTimeout)
	if !strings.Contains(e.Error(), "no response within 50ms") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", e)
	}
	if x.ExitCode != -1 {
		t.Errorf("got exit code %d, want -1", x.ExitCode)
	}
}

func TestCommandCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x, err := testCommand(t, "say", testStdout+"="+goodResponse).Run(ctx, testRequest())
	checkRun(t, x, err, StageCanceled)
	if !errors.Is(err, context.Canceled) || !x.Started.IsZero() {
		t.Errorf("cancelled before the start: got %v, started %v", err, x.Started)
	}
}

// TestCommandFormat verifies that formatting verbs and log handlers do not print Environ.
func TestCommandFormat(t *testing.T) {
	c := Command{Path: "/opt/ecr", Environ: []string{"TOKEN=" + canary.TokenSecret}, Args: NewSecrets(canary.PasswordSecret)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		for _, value := range []any{c, &c, []Command{c}} {
			if got := fmt.Sprintf(verb, value); strings.Contains(got, "TOKEN=") {
				t.Errorf("%s prints %q", verb, got)
			}
		}
	}
	var b strings.Builder
	slog.New(slog.NewTextHandler(&b, nil)).Info("run", "command", c)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("run", "command", c)
	if strings.Contains(b.String(), "TOKEN=") {
		t.Errorf("a log handler prints %q", b.String())
	}
	if got, want := fmt.Sprint(c), `plugin "ecr"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
