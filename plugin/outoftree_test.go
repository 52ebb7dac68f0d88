// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// outOfTreeCommand returns a Command that runs the test binary as a plugin of the out-of-tree
// protocol.
func outOfTreeCommand(t testing.TB, mode string, env ...string) Command {
	c := testCommand(t, mode, env...)
	c.APIVersion = OutOfTree
	return c
}

// outOfTreeResponseUntil returns a response of the OutOfTree protocol with the given expirationTimestamp.
func outOfTreeResponseUntil(expiry string) string {
	return strings.Replace(goodOutOfTreeResponse, "2026-05-01T12:10:00Z", expiry, 1)
}

func TestCommandOutOfTree(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	c := outOfTreeCommand(t, "record", testStdout+"="+outOfTreeResponseUntil("2999-01-01T00:00:00Z"), testStderr+"="+asked)
	c.Args = NewSecrets("--flag", "get-credentials")
	c.Env = NewSecrets("REGION=us-west-2")
	x, err := c.Run(t.Context(), testRequest())
	checkRun(t, x, err, "")

	const stdin = `{"image":"registry.example/team/app"}` + "\n"
	if x.Stdin.Reveal() != stdin || x.Stdout.Reveal() != outOfTreeResponseUntil("2999-01-01T00:00:00Z") {
		t.Error("Stdin and Stdout are not what was said")
	}
	record := must.Get(os.ReadFile(asked))(t)
	if want := "get-credentials\n--flag\nget-credentials\nREGION=us-west-2\n" + stdin; string(record) != want {
		t.Errorf("the plugin got\n%swant\n%s", record, want)
	}

	left := *x.Response.CacheDuration
	if left < 100*365*24*time.Hour {
		t.Errorf("it may be kept for %v, want centuries", left)
	}
	want := &Response{OutOfTree, CacheImage, &left, map[string]AuthConfig{"registry.example/team/app": {"ci", NewSecret(canary.PasswordSecret)}}}
	if !cmp.Equal(want, x.Response) {
		t.Errorf("got %v, want %v", x.Response, want)
	}
}

func TestCommandOutOfTreeStages(t *testing.T) {
	const prefix = "invalid RegistryCredentialPluginResponse"
	for name, tt := range map[string]struct {
		stdout  string
		env     []string
		want    Stage
		message string
	}{
		"no expiry":      {stdout: `{"username":"ci","password":"` + canary.PasswordSecret + `"}`},
		"past":           {stdout: outOfTreeResponseUntil("2001-01-01T00:00:00Z")},
		"no credential":  {stdout: `{"username":"","password":""}`},
		"today's answer": {stdout: goodResponse, want: StageAPIVersion, message: "apiVersion: " + prefix + ": kind: got a CredentialProviderResponse"},
		"without zone":   {stdout: outOfTreeResponseUntil("2026-05-01T12:10:00"), want: StageDecode, message: "decode: " + prefix + " at offset 89: expirationTimestamp: must be a time with a time zone"},
		"no date":        {stdout: outOfTreeResponseUntil(canary.PasswordSecret), want: StageDecode, message: "expirationTimestamp: must be a time"},
		"nothing":        {want: StageOutput, message: "output: " + prefix + " at offset 0: the plugin exited 0"},
		"exit 1":         {stdout: goodOutOfTreeResponse, env: []string{testExit + "=1", testStderr + "=no such command: get-credentials"}, want: StageExec, message: `exit status 1; stderr: "no such command: get-credentials"`},
		"password in stderr": {stdout: goodOutOfTreeResponse, env: []string{testExit + "=1", testStderr + "=got " + canary.PasswordSecret + " until 2026-05-01T12:10:00Z"},
			want: StageExec, message: `stderr: "got [redacted] until 2026-05-01T12:10:00Z"`},
		"password of a refused answer in stderr": {stdout: strings.Replace(goodOutOfTreeResponse, "username", "user", 1), env: []string{testStderr + "=got " + canary.PasswordSecret},
			want: StageDecode, message: `user: unknown field; use username; stderr: "got [redacted]"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, err := outOfTreeCommand(t, "say", append(tt.env, testStdout+"="+tt.stdout)...).Run(t.Context(), testRequest())
			e := checkRun(t, x, err, tt.want)
			if e != nil && !strings.Contains(e.Error(), tt.message) {
				t.Errorf("got  %v\nwant …%s…", e, tt.message)
			}
			if e == nil && *x.Response.CacheDuration != 0 {
				t.Errorf("it may be kept for %v, want not at all", *x.Response.CacheDuration)
			}
		})
	}
}

// TestCommandGetsPredecessorsAnswer verifies the error for a plugin that returns an OutOfTree
// response to a request of another version.
func TestCommandGetsPredecessorsAnswer(t *testing.T) {
	for _, version := range apiVersions {
		c := testCommand(t, "say", testStdout+"="+goodOutOfTreeResponse)
		c.APIVersion = version
		x, err := c.Run(t.Context(), testRequest())
		e := checkRun(t, x, err, StageAPIVersion)
		const want = "got a RegistryCredentialPluginResponse from the out-of-tree protocol; configure the plugin in a RegistryCredentialConfig"
		if e != nil && !strings.HasSuffix(e.Error(), want) {
			t.Errorf("%s: got %v, want …%s", version, e, want)
		}
	}
}

// TestServeOutOfTree verifies that one plugin responds in the version of each request, even if
// a request of the kubelet's protocol comes with the argument get-credentials.
func TestServeOutOfTree(t *testing.T) {
	for _, version := range append(apiVersions, OutOfTree) {
		c := testCommand(t, "serve")
		c.APIVersion = version
		if version != OutOfTree {
			c.Args = NewSecrets("get-credentials")
		}
		x, err := c.Run(t.Context(), testRequest())
		checkRun(t, x, err, "")
		key := "registry.example"
		if version == OutOfTree {
			key = "registry.example/team/app"
		}
		want := map[string]AuthConfig{key: {"ci", NewSecret(canary.PasswordSecret)}}
		if resp := x.Response; resp != nil && (resp.APIVersion != version || !cmp.Equal(resp.Auth, want)) {
			t.Errorf("%s: got %v, want the credential under %q", version, resp, key)
		}
	}
}

// TestServeOutOfTreeWhen verifies that Serve accepts an OutOfTree request only if the first
// argument is get-credentials and the request contains only an image.
func TestServeOutOfTreeWhen(t *testing.T) {
	const (
		alone   = `{"image":"registry.example/a"}`
		refused = "plug: invalid CredentialProviderRequest: kind: must be CredentialProviderRequest\n"
	)
	for name, tt := range map[string]struct {
		args  []string
		stdin string
		old   bool // the request is accepted as an OutOfTree request
	}{
		"both":                     {[]string{"get-credentials"}, alone, true},
		"both, and more arguments": {[]string{"get-credentials", "-v=3"}, alone, true},
		"no argument":              {[]string{}, alone, false},
		"another argument":         {[]string{"get"}, alone, false},
		"not the first argument":   {[]string{"-v=3", "get-credentials"}, alone, false},
		"empty kind":               {[]string{"get-credentials"}, `{"kind":"","image":"registry.example/a"}`, false},
		"kind":                     {[]string{"get-credentials"}, `{"kind":"RegistryCredentialPluginRequest","image":"registry.example/a"}`, false},
		"version":                  {[]string{"get-credentials"}, `{"apiVersion":"v1alpha1","image":"registry.example/a"}`, false},
		"another member":           {[]string{"get-credentials"}, `{"image":"registry.example/a","serviceAccountToken":"` + canary.TokenSecret + `"}`, false},
		"no image":                 {[]string{"get-credentials"}, `{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := false
			got := serveRequest(t.Context(), strings.NewReader(tt.stdin), func(ctx context.Context, req *Request) (*Response, error) {
				asked = true
				if want := (&Request{APIVersion: OutOfTree, Image: "registry.example/a"}); !cmp.Equal(req, want) {
					t.Errorf("the provider got %v, want %v", req, want)
				}
				return testProvider(ctx, req)
			}, ServeOptions{Args: tt.args})
			if !tt.old {
				if want := (serveResult{2, "", refused}); got != want || asked {
					t.Errorf("got %+v (provider asked: %v), want %+v", got, asked, want)
				}
				return
			}
			resp, err := DecodeResponse([]byte(got.stdout), OutOfTree)
			if err != nil || got.code != 0 || got.stderr != "" {
				t.Fatalf("got code %d, stderr %q, response %v", got.code, got.stderr, err)
			}
			if want := map[string]AuthConfig{"": {"ci", NewSecret(canary.PasswordSecret)}}; !cmp.Equal(resp.Auth, want) {
				t.Errorf("got %v, want %v", resp, want)
			}
			if d := *resp.CacheDuration; d <= 0 || d > 10*time.Minute {
				t.Errorf("it may be kept for %v, want what is left of 10 minutes", d)
			}
		})
	}
}

// TestServeOutOfTreeAnswers verifies that Serve sends one credential of the provider's
// response, and that it rejects invalid responses.
func TestServeOutOfTreeAnswers(t *testing.T) {
	const head = `{"kind":"RegistryCredentialPluginResponse","apiVersion":"v1alpha1",`
	for name, tt := range map[string]struct {
		resp *Response
		err  error
		want serveResult
	}{
		"several keys": {resp: &Response{CacheKeyType: CacheGlobal, Auth: map[string]AuthConfig{
			"*.example":          {"wildcard", NewSecret(canary.PasswordSecret)},
			"registry.example":   {"host", NewSecret(canary.PasswordSecret)},
			"registry.example/a": {"path", NewSecret("open-sesame")},
			"registry.example/b": {"other path", NewSecret(canary.PasswordSecret)},
		}}, want: serveResult{0, head + `"username":"path","password":"open-sesame"}` + "\n", ""}},
		"no key that matches": {resp: &Response{CacheKeyType: CacheGlobal, Auth: map[string]AuthConfig{"other.example": {"u", NewSecret(canary.PasswordSecret)}}},
			want: serveResult{0, head + `"username":"","password":""}` + "\n", ""}},
		"no credential": {resp: &Response{CacheKeyType: CacheImage, CacheDuration: new(time.Duration)},
			want: serveResult{0, head + `"username":"","password":""}` + "\n", ""}},
		"no cacheKeyType": {resp: &Response{}, want: serveResult{1, "", "plug: the provider's CacheKeyType must be Image, Registry or Global\n"}},
		"not UTF-8": {resp: &Response{CacheKeyType: CacheImage, Auth: map[string]AuthConfig{"registry.example": {"u", NewSecret(canary.PasswordSecret + "\xff")}}},
			want: serveResult{1, "", "plug: encode RegistryCredentialPluginResponse: auth: a key, user name or password is not valid UTF-8\n"}},
		"error":  {err: errors.New("no route to host"), want: serveResult{1, "", "plug: no route to host\n"}},
		"nobody": {want: serveResult{1, "", "plug: the provider returned neither a response nor an error\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := serveRequest(t.Context(), strings.NewReader(`{"image":"registry.example/a"}`), func(context.Context, *Request) (*Response, error) {
				return tt.resp, tt.err
			}, ServeOptions{Args: []string{"get-credentials"}})
			canary.AssertAbsent(t, "what was written", got.stdout+got.stderr)
			if got != tt.want {
				t.Error("got another response than wanted")
			}
		})
	}
}
