// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package apiserver asks an API server of Kubernetes one thing at a time, within
// bounds of time and size, and says without a secret why there is no answer. What is
// asked, and with which permissions, its users know: packages kube and fleet.
//
//	server, err := apiserver.New(cfg, 10*time.Second)
//	body, failure := server.Do(ctx, &apiserver.Call{Path: []string{"api", "v1", "pods"}, Repeat: true})
package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/remote"
)

// MaxObject bounds an answer in bytes. An object in etcd has at most 1.5 MiB, and a
// secret's data grow by a third in JSON.
const MaxObject = 4 << 20

// Server is an API server as one client reaches it. It is safe for concurrent use.
type Server struct {
	http    *http.Client
	base    *url.URL
	timeout time.Duration
}

// New makes a Server of a configuration of client-go, which is not changed. A call may
// take so long, repetitions included. The API server is not called.
func New(cfg *rest.Config, timeout time.Duration) (*Server, error) {
	if cfg == nil {
		return nil, errors.New("create API server client: no configuration")
	}
	cfg = rest.CopyConfig(cfg)
	if cfg.UserAgent == "" {
		cfg.UserAgent = UserAgent()
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		host := cfg.Host[strings.LastIndex(cfg.Host, "@")+1:] // without a password, which err quotes
		return nil, fmt.Errorf("create API server client: address %q is neither a URL nor host:port", host)
	}
	base.User = nil
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("create client for API server %s: %w", base, err)
	}
	// Credentials, which client-go adds to every request, do not go to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Server{&http.Client{Transport: transport, CheckRedirect: stay}, base, timeout}, nil
}

// URL is the address, without a password that may be in the configuration.
func (s *Server) URL() string { return s.base.String() }

// Call is one question.
type Call struct {
	Method string   // "" means GET
	Path   []string // below the base address
	Query  url.Values
	Body   []byte
	Type   string // of the body; "" means JSON
	Most   int64  // bytes of the answer; 0 means 4 MiB
	Repeat bool   // it may be asked again if the connection was closed before the response was complete
}

// Do asks until the API server answers, as far as asking again is safe and the time
// allows. It returns the body of an answer of success.
func (s *Server) Do(ctx context.Context, c *Call) ([]byte, *Failure) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, TimeoutError(s.timeout))
	defer cancel()
	again := c.Repeat // once, if there is no answer
	for {
		body, failure := s.once(ctx, c)
		if failure == nil {
			return body, nil
		}
		wait := failure.RetryAfter
		if wait == 0 {
			if !again || !failure.brokeOff {
				return nil, failure
			}
			again, wait = false, 50*time.Millisecond
		}
		if !remote.Pause(ctx, wait+rand.N(wait/4)) {
			return nil, failure
		}
	}
}

// once asks once.
func (s *Server) once(ctx context.Context, c *Call) ([]byte, *Failure) {
	resp, failure := s.Send(ctx, c)
	if failure != nil {
		return nil, failure
	}
	defer resp.Body.Close()
	most := c.Most
	if most <= 0 {
		most = MaxObject
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, NoAnswer(ctx, err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, Refused(resp, body)
	case int64(len(body)) > most:
		return nil, &Failure{Err: fmt.Errorf("the response is longer than %d bytes", most)}
	}
	return body, nil
}

// Send asks once, whatever the answer is, and returns its header; the caller closes
// its body. It takes no longer than ctx.
func (s *Server) Send(ctx context.Context, c *Call) (*http.Response, *Failure) {
	req, err := s.request(ctx, c)
	if err != nil {
		return nil, &Failure{Err: err}
	}
	// client-go waits for a program that gives credentials whatever the context
	// says, and a transport that wraps its own may do anything.
	resp, err := await.Result(ctx, "send", func() (*http.Response, error) {
		resp, err := s.http.Do(req)
		if err == nil && ctx.Err() != nil { // nobody waits for it any more
			resp.Body.Close()
			return nil, ctx.Err()
		}
		return resp, err
	})
	if err != nil {
		return nil, NoAnswer(ctx, err)
	}
	return resp, nil
}

func (s *Server) request(ctx context.Context, c *Call) (*http.Request, error) {
	segments := make([]string, len(c.Path))
	for i, segment := range c.Path {
		if !isSegment(segment) {
			return nil, fmt.Errorf("%q is not a valid namespace or name", segment)
		}
		segments[i] = url.PathEscape(segment)
	}
	u := s.base.JoinPath(segments...)
	u.RawQuery = c.Query.Encode()
	req, err := http.NewRequestWithContext(ctx, c.Method, u.String(), bytes.NewReader(c.Body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, */*") // a log is plain text
	switch {
	case c.Type != "":
		req.Header.Set("Content-Type", c.Type)
	case c.Body != nil:
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// isSegment refuses names that would change the path.
func isSegment(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= 253 && !strings.ContainsAny(s, "/%")
}

// UserAgent is how the API server's audit log names the client.
func UserAgent() string {
	const module = "github.com/regcred/regcred"
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" && m.Version != "(devel)" {
				version = m.Version
			}
		}
	}
	return fmt.Sprintf("regcred/%s (%s/%s)", version, runtime.GOOS, runtime.GOARCH)
}
