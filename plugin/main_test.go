// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/protocol"
)

func testProvider(_ context.Context, req *Request) (*Response, error) {
	return &Response{
		CacheKeyType:  CacheRegistry,
		CacheDuration: new(10 * time.Minute),
		Auth:          map[string]AuthConfig{"registry.example": {Username: "ci", Password: NewSecret(canary.PasswordSecret)}},
	}, nil
}

func requestBytes(t *testing.T, version string) []byte {
	t.Helper()
	req := &Request{APIVersion: version, Image: "registry.example/a", ServiceAccountToken: NewSecret(canary.TokenSecret)}
	return must.Get(EncodeRequest(req))(t)
}

// serveResult is the result of one call of Serve.
type serveResult struct {
	code           int
	stdout, stderr string
}

func serveRequest(ctx context.Context, stdin io.Reader, p ProviderFunc, opts ServeOptions) serveResult {
	var stdout, stderr bytes.Buffer
	opts.Stdin, opts.Stderr, opts.Name = stdin, &stderr, "plug"
	if opts.Stdout == nil {
		opts.Stdout = &stdout
	}
	if opts.Args == nil {
		opts.Args = []string{}
	}
	code := Serve(ctx, p, opts)
	return serveResult{code, stdout.String(), stderr.String()}
}

func TestServe(t *testing.T) {
	for _, version := range apiVersions {
		for _, args := range [][]string{{}, {"get-credentials"}, {"get-credentials", "--version"}, {"-v=3"}} {
			got := serveRequest(t.Context(), bytes.NewReader(requestBytes(t, version)), func(ctx context.Context, req *Request) (*Response, error) {
				if req.APIVersion != version || req.Image != "registry.example/a" || (req.ServiceAccountToken.Reveal() == canary.TokenSecret) != (version == V1) {
					t.Errorf("%s: the provider got %v", version, req)
				}
				return testProvider(ctx, req)
			}, ServeOptions{Args: args})
			want := strings.Replace(goodResponse, V1, version, 1)
			if got.code != 0 || got.stdout != want || got.stderr != "" {
				t.Errorf("%s %q: got code %d and stderr %q, or another response", version, args, got.code, got.stderr)
			}
		}
	}
}

func TestServeRefusesRequests(t *testing.T) {
	called := func(context.Context, *Request) (*Response, error) {
		t.Error("the provider was called")
		return nil, nil
	}
	for name, tt := range map[string]struct{ stdin, want string }{
		"empty":   {"", "plug: invalid CredentialProviderRequest at offset 0: empty\n"},
		"text":    {canary.TokenSecret, "plug: invalid CredentialProviderRequest at offset 0: invalid JSON\n"},
		"version": {`{"kind":"CredentialProviderRequest","apiVersion":"v9","image":"a"}`, "plug: invalid CredentialProviderRequest: apiVersion: must be credentialprovider.kubelet.k8s.io/v1, v1beta1 or v1alpha1\n"},
		"long":    {strings.Repeat(" ", maxRequestSize) + "{}", "plug: invalid CredentialProviderRequest: longer than 2097152 bytes\n"},
	} {
		got := serveRequest(t.Context(), strings.NewReader(tt.stdin), called, ServeOptions{})
		if want := (serveResult{2, "", tt.want}); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	got := serveRequest(t.Context(), io.MultiReader(strings.NewReader("{"), failingReader{}), called, ServeOptions{})
	if want := (serveResult{1, "", "plug: read the request: input/output error\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("input/output error") }

func TestServeProviderFails(t *testing.T) {
	respond := func(change func(*Response)) ProviderFunc {
		return func(ctx context.Context, req *Request) (*Response, error) {
			resp, err := testProvider(ctx, req)
			change(resp)
			return resp, err
		}
	}
	fail := func(err error) ProviderFunc {
		return func(context.Context, *Request) (*Response, error) { return nil, err }
	}
	for name, tt := range map[string]struct {
		p    ProviderFunc
		want string
	}{
		"error":             {fail(errors.New("no route to host")), "no route to host"},
		"several lines":     {fail(errors.New("one\n\ttwo\x1b[2J\n")), `one two\x1b[2J`},
		"token in error":    {fail(errors.New("refused: " + canary.TokenSecret)), "refused: [redacted]"},
		"token in base64":   {fail(fmt.Errorf("refused: %x", canary.TokenSecret)), "refused: [redacted]"},
		"long error":        {fail(errors.New(strings.Repeat("é", maxErrorLineLength))), strings.Repeat("é", maxErrorLineLength/2) + "…"},
		"nothing":           {fail(nil), "the provider returned neither a response nor an error"},
		"no cacheKeyType":   {respond(func(r *Response) { r.CacheKeyType = "" }), "the provider's CacheKeyType must be Image, Registry or Global"},
		"bad cacheKeyType":  {respond(func(r *Response) { r.CacheKeyType = canary.PasswordSecret }), "the provider's CacheKeyType must be Image, Registry or Global"},
		"password no UTF-8": {respond(func(r *Response) { r.Auth["a"] = AuthConfig{Password: NewSecret("\xff" + canary.PasswordSecret)} }), "encode CredentialProviderResponse: auth: a key, user name or password is not valid UTF-8"},
		"ended goroutine":   {func(context.Context, *Request) (*Response, error) { runtime.Goexit(); return nil, nil }, "get credentials: it called runtime.Goexit"},
		"panic":             {func(context.Context, *Request) (*Response, error) { panic("with " + canary.PasswordSecret) }, "get credentials: panic in github.com/regcred/regcred/plugin.TestServeProviderFails.func"},
		"run-time panic":    {func(_ context.Context, req *Request) (*Response, error) { return nil, (*ExecError)(nil).Unwrap() }, "get credentials: panic in github.com/regcred/regcred/plugin.(*ExecError).Unwrap (errors.go:"},
	} {
		t.Run(name, func(t *testing.T) {
			got := serveRequest(t.Context(), bytes.NewReader(requestBytes(t, V1)), tt.p, ServeOptions{})
			canary.AssertAbsent(t, "stderr", got.stderr)
			if got.code != 1 || got.stdout != "" {
				t.Errorf("got code %d and %d bytes of stdout", got.code, len(got.stdout))
			}
			if !strings.HasPrefix(got.stderr, "plug: "+tt.want) || strings.Count(got.stderr, "\n") != 1 || !strings.HasSuffix(got.stderr, "\n") {
				t.Errorf("got stderr %q, want %q and a line end", got.stderr, tt.want)
			}
		})
	}
}

// shortWriter writes at most n bytes in each call.
type shortWriter struct {
	n      int
	err    error
	writes int
}

func (w *shortWriter) Write(data []byte) (int, error) {
	w.writes++
	return min(w.n, len(data)), w.err
}

func TestServeWritesOnce(t *testing.T) {
	for _, tt := range []struct {
		w    *shortWriter
		code int
		want string
	}{
		{&shortWriter{n: len(goodResponse)}, 0, ""},
		{&shortWriter{n: len(goodResponse) - 1}, 1, "plug: write the response: short write\n"},
		{&shortWriter{err: errors.New("no space left on device")}, 1, "plug: write the response: no space left on device\n"},
	} {
		got := serveRequest(t.Context(), bytes.NewReader(requestBytes(t, V1)), testProvider, ServeOptions{Stdout: tt.w})
		if want := (serveResult{tt.code, "", tt.want}); got != want || tt.w.writes != 1 {
			t.Errorf("got %+v in %d writes, want %+v in one", got, tt.w.writes, want)
		}
	}
}

func TestServeDeadline(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			want := timeout
			if timeout == 0 {
				want = protocol.ServeTimeout
			}
			release := make(chan struct{})
			defer close(release)
			deaf := func(context.Context, *Request) (*Response, error) {
				<-release
				return nil, nil
			}
			begun := time.Now()
			got := serveRequest(t.Context(), bytes.NewReader(requestBytes(t, V1)), deaf, ServeOptions{Timeout: timeout})
			if want := (serveResult{1, "", fmt.Sprintf("plug: get credentials: no response within %v\n", want)}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got := time.Since(begun); got != want {
				t.Errorf("it took %v, want %v", got, want)
			}
		})
	}
}

func TestServeDeadlineReachesProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left time.Duration
		serveRequest(t.Context(), bytes.NewReader(requestBytes(t, V1)), func(ctx context.Context, _ *Request) (*Response, error) {
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)
			return nil, nil
		}, ServeOptions{})
		if left != protocol.ServeTimeout {
			t.Errorf("the provider has %v, want %v", left, protocol.ServeTimeout)
		}
	})
}

func TestServeStdinNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stdin, w := io.Pipe()
		defer w.Close()
		got := serveRequest(t.Context(), stdin, testProvider, ServeOptions{})
		if want := (serveResult{1, "", "plug: read the request: no response within 50s\n"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestServeCanceled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	release := make(chan struct{})
	defer close(release)
	got := serveRequest(ctx, bytes.NewReader(requestBytes(t, V1)), func(context.Context, *Request) (*Response, error) {
		cancel(errors.New("terminated signal received"))
		<-release
		return nil, nil
	}, ServeOptions{})
	if want := (serveResult{1, "", "plug: get credentials: terminated signal received\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestServeVersion(t *testing.T) {
	for _, tt := range []struct {
		args    []string
		version string
		want    string
	}{
		{[]string{"--version"}, "v1.2.3", "plug v1.2.3\n"},
		{[]string{"-version", "more"}, "v1.2.3", "plug v1.2.3\n"},
		{[]string{"--version"}, "", "plug (devel)\n"},
	} {
		got := serveRequest(t.Context(), failingReader{}, nil, ServeOptions{Args: tt.args, Version: tt.version})
		if want := (serveResult{0, tt.want, ""}); got != want {
			t.Errorf("%q: got %+v, want %+v", tt.args, got, want)
		}
	}
	got := serveRequest(t.Context(), failingReader{}, nil, ServeOptions{Args: []string{"--version"}, Stdout: &shortWriter{err: errors.New("full")}})
	if got.code != 1 {
		t.Errorf("--version to a full disk: got %+v, want code 1", got)
	}
}
