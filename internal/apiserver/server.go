// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package apiserver sends single requests to a Kubernetes API server, with limits of time
// and size and errors without secrets. Packages kube and fleet are built on it.
//
//	server, err := apiserver.New(cfg, 10*time.Second)
//	body, failure := server.Do(ctx, &apiserver.Call{Path: []string{"api", "v1", "pods"}, Repeat: true})
package apiserver

import (
	"bytes"
	"cmp"
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

// maxObject is the default limit of a response in bytes. An object in etcd has at most
// 1.5 MiB, and a secret's data grow by a third in JSON.
const maxObject = 4 << 20

// Server is a client of an API server. It is safe for concurrent use.
type Server struct {
	http    *http.Client
	base    *url.URL
	timeout time.Duration
}

// New returns a Server for a client-go configuration, which it does not change. timeout
// limits a call including its retries. New does not call the API server.
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
		host := cfg.Host[strings.LastIndex(cfg.Host, "@")+1:] // without the password, which err would quote
		return nil, fmt.Errorf("create API server client: address %q is neither a URL nor host:port", host)
	}
	base.User = nil
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("create client for API server %s: %w", base, err)
	}
	// Redirects are not followed. client-go adds credentials to every request, and
	// would send them to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Server{&http.Client{Transport: transport, CheckRedirect: stay}, base, timeout}, nil
}

// URL returns the address without its password.
func (s *Server) URL() string { return s.base.String() }

// Call is one request.
type Call struct {
	Method string   // "" means GET
	Path   []string // path segments below the base address
	Query  url.Values
	Body   []byte
	Type   string // media type of the body; "" means JSON
	Most   int64  // maximum bytes of the response; 0 means 4 MiB
	Repeat bool   // retry if the connection was closed before the response was complete
}

// Do sends a call, with retries if they are safe, and returns the body of a successful
// response.
func (s *Server) Do(ctx context.Context, c *Call) ([]byte, *Failure) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("timed out after %v: %w", s.timeout, context.DeadlineExceeded))
	defer cancel()
	again := c.Repeat // retry once if there was no response
	for {
		body, failure := s.doOnce(ctx, c)
		if failure == nil {
			return body, nil
		}
		wait := failure.RetryAfter
		if wait == 0 {
			if !again || !failure.connectionLost {
				return nil, failure
			}
			again, wait = false, 50*time.Millisecond
		}
		if !remote.Sleep(ctx, wait+rand.N(wait/4)) {
			return nil, failure
		}
	}
}

// doOnce sends a call once.
func (s *Server) doOnce(ctx context.Context, c *Call) ([]byte, *Failure) {
	req, err := s.newRequest(ctx, c)
	if err != nil {
		return nil, &Failure{Err: err}
	}
	// client-go's exec credential plugins ignore the context, and so may a wrapped transport.
	resp, err := await.Call(ctx, "send", func() (*http.Response, error) {
		resp, err := s.http.Do(req)
		if err == nil && ctx.Err() != nil { // the caller has returned
			resp.Body.Close()
			return nil, ctx.Err()
		}
		return resp, err
	})
	if err != nil {
		return nil, noResponse(ctx, err)
	}
	defer resp.Body.Close()
	most := cmp.Or(c.Most, maxObject)
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, noResponse(ctx, err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, refused(resp, body)
	case int64(len(body)) > most:
		return nil, &Failure{Err: fmt.Errorf("the response is longer than %d bytes", most)}
	}
	return body, nil
}

func (s *Server) newRequest(ctx context.Context, c *Call) (*http.Request, error) {
	segments := make([]string, len(c.Path))
	for i, segment := range c.Path {
		if !isPathSegment(segment) {
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
	req.Header.Set("Accept", "application/json, */*") // logs are plain text
	switch {
	case c.Type != "":
		req.Header.Set("Content-Type", c.Type)
	case c.Body != nil:
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// isPathSegment rejects names that would change the path.
func isPathSegment(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= 253 && !strings.ContainsAny(s, "/%")
}

// UserAgent returns the client's name in the API server's audit log.
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
