// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package apiserver sends single requests to a Kubernetes API server, with limits of time
// and size and errors without secrets. Packages kube and fleet are built on it.
//
//	server, err := apiserver.New(cfg, 10*time.Second)
//	body, failure := server.Do(ctx, &apiserver.Call{Verb: "list", Resource: "pods"})
package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/remote"
)

// maxObject is the default size limit of a response, in bytes. An object in etcd has at most
// 1.5 MiB, and the data of a secret grows by a third in JSON.
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

// Call is one request, described in terms of RBAC.
type Call struct {
	Verb            string // get, list, create, patch
	Group           string // "" means the core group
	Resource        string // plural, with any subresource
	Namespace, Name string // "" means all
	Query           url.Values
	Body            any   // sent as JSON; for patch, a merge patch
	MaxSize         int64 // maximum bytes of the response; 0 means 4 MiB
}

// urlPathElements returns the elements of the URL path below the base address.
func (c *Call) urlPathElements() []string {
	path := []string{"api", "v1"}
	if c.Group != "" {
		path = []string{"apis", c.Group, "v1"}
	}
	resource, sub, _ := strings.Cut(c.Resource, "/")
	named := c.Name != "" || sub != "" || c.Verb == "get" // then newRequest rejects an empty namespace or name
	if named || c.Namespace != "" {
		path = append(path, "namespaces", c.Namespace)
	}
	path = append(path, resource)
	if named {
		path = append(path, c.Name)
	}
	if sub != "" {
		path = append(path, sub)
	}
	return path
}

// GetObject is like [Server.Do], but decodes the response, which must be an object of the
// given kind.
func (s *Server) GetObject(ctx context.Context, c *Call, kind string, into any) *Failure {
	body, failure := s.Do(ctx, c)
	if failure != nil {
		return failure
	}
	var meta metav1.TypeMeta
	// The decoder's error may quote the response, which may contain a secret.
	if json.Unmarshal(body, &meta) != nil || meta.Kind != kind || json.Unmarshal(body, into) != nil {
		return &Failure{Err: fmt.Errorf("the response is not a %s: check that this is the address of an API server", kind)}
	}
	return nil
}

// Do sends a call and returns the body of a successful response. Like client-go, it retries
// the call if that is safe.
func (s *Server) Do(ctx context.Context, c *Call) ([]byte, *Failure) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("timed out after %v: %w", s.timeout, context.DeadlineExceeded))
	defer cancel()
	again := c.Verb == "get" || c.Verb == "list" // retry once if there was no response
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
		return nil, noResponseFailure(ctx, err)
	}
	defer resp.Body.Close()
	most := cmp.Or(c.MaxSize, maxObject)
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, noResponseFailure(ctx, err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, statusFailure(resp, body)
	case int64(len(body)) > most:
		return nil, &Failure{Err: &regularfile.LimitError{Msg: fmt.Sprintf("the response is longer than %d bytes", most)}}
	}
	return body, nil
}

func (s *Server) newRequest(ctx context.Context, c *Call) (*http.Request, error) {
	segments := c.urlPathElements()
	for i, segment := range segments {
		if !isPathSegment(segment) {
			return nil, fmt.Errorf("%q is not a valid namespace or name", segment)
		}
		segments[i] = url.PathEscape(segment)
	}
	u := s.base.JoinPath(segments...)
	u.RawQuery = c.Query.Encode()
	var body []byte
	if c.Body != nil {
		var err error
		if body, err = json.Marshal(c.Body); err != nil {
			return nil, err
		}
	}
	method := map[string]string{"create": http.MethodPost, "patch": http.MethodPatch}[c.Verb]
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, */*") // logs are plain text
	switch {
	case c.Verb == "patch":
		req.Header.Set("Content-Type", "application/merge-patch+json")
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
