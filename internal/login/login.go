// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package login authenticates to a registry with one credential. It finds out
// which authentication the registry requires, gets a token if necessary,
// retries requests, and redacts secrets in errors. The caller decides which
// credential to try next.
//
//	r := &login.Registry{Target: target, Secrets: &login.Secrets{}}
//	session, err := r.Login(ctx, &credential)
//	client := &http.Client{Transport: session}
//
// A credential is sent to the registry and to the token server that the
// registry names, over TLS unless the target allows plain HTTP. It is never
// sent along with a redirect.
package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred"
)

// Registry describes how to connect to a registry. Its fields must not be changed after
// first use. It is then safe for concurrent use.
type Registry struct {
	Target      Target
	Secrets     *Secrets          // collects what must be redacted
	Transport   http.RoundTripper // sends the requests; nil means [http.DefaultTransport]
	IdleTimeout time.Duration     // timeout for a request on which no byte arrives; 0 means 30 seconds
	Budget      *RetryBudget      // shared by all requests; nil means one per request, based on Retry
	Retry       RetryOptions

	pings pingCache
}

// Session is a round tripper that is logged in to a registry. It also sends requests to
// hosts to which the registry redirects. It is safe for concurrent use.
type Session struct {
	registry  *Registry
	cred      *regcred.Credential
	inner     http.RoundTripper // adds the credential
	usesToken bool              // adds a token

	loginLock chan struct{}           // held while logging in again
	next      atomic.Pointer[Session] // session that replaces this one if the registry later requires a token
}

// Login determines which authentication the registry requires, and gets a token if necessary. The
// result of the first call is also used for later credentials. Login does not test passwords for
// Basic authentication. Without a credential, the login is anonymous.
func (r *Registry) Login(ctx context.Context, cred *regcred.Credential) (*Session, error) {
	auth, err := authenticator(cred)
	if err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	r.Secrets.AddCredential(cred)
	p := &pinger{inner: r.baseTransport(), pings: &r.pings}
	rt, err := transport.NewWithContext(ctx, r.Target.Registry, auth, transport.NewUserAgent(p, userAgent), []string{r.Target.Scope})
	if err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	return &Session{registry: r, cred: cred, inner: rt, usesToken: p.tokens.Load(), loginLock: make(chan struct{}, 1)}, nil
}

// baseTransport returns the transport that sends all requests.
func (r *Registry) baseTransport() http.RoundTripper {
	return &retrier{budget: r.Budget, retry: r.Retry, inner: &wireTransport{
		inner: cmp.Or(r.Transport, http.DefaultTransport), target: r.Target,
		idle: cmp.Or(r.IdleTimeout, 30*time.Second), secrets: r.Secrets,
	}}
}

// RoundTrip implements [http.RoundTripper]. It authenticates requests to the registry
// ([Target.IsToRegistry]). To other hosts it sends no credential, only an anonymous token if
// they require one.
//
// If the registry requires a token that it did not require at first, the session logs
// in again and uses the token from then on, as container runtimes do.
func (s *Session) RoundTrip(req *http.Request) (*http.Response, error) {
	if next := s.next.Load(); next != nil {
		return next.roundTrip(req)
	}
	resp, err := s.roundTrip(req)
	if err != nil || s.usesToken || resp.StatusCode != http.StatusUnauthorized || !wantsToken(resp.Header) || !s.registry.Target.IsToRegistry(req) {
		return resp, err
	}
	again := cloneForResend(req)
	if again == nil {
		return resp, nil
	}
	resp.Body.Close()
	next, err := s.renewToken(req.Context(), resp)
	if err != nil {
		return nil, err
	}
	return next.roundTrip(again)
}

// renewToken logs in again to get a token. All requests share this login.
func (s *Session) renewToken(ctx context.Context, resp *http.Response) (*Session, error) {
	select {
	case s.loginLock <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.loginLock }()
	if next := s.next.Load(); next != nil {
		return next, nil
	}
	s.registry.pings.learnAnonymous(resp)
	next, err := s.registry.Login(ctx, s.cred)
	if err != nil {
		return nil, err
	}
	s.next.Store(next)
	return next, nil
}

func (s *Session) roundTrip(req *http.Request) (*http.Response, error) {
	target := s.registry.Target
	marked := markContentRequest(req)
	switch {
	case target.IsToRegistry(req):
		marked.URL.Host = target.Host() // go-containerregistry only recognizes this spelling
	case target.matchesHost(req.URL.Scheme, req.URL.Host):
		return s.registry.RoundTrip(req)
	}
	// If Host contained the registry's name, go-containerregistry would treat any
	// request as a request to the registry.
	marked.Host = ""
	return s.inner.RoundTrip(marked)
}

// RoundTrip sends a request without credentials, for example to a redirect target.
func (r *Registry) RoundTrip(req *http.Request) (*http.Response, error) {
	return transport.NewUserAgent(r.baseTransport(), userAgent).RoundTrip(markContentRequest(req))
}

// UsesTokens reports whether the registry uses tokens. If it does, a 401 from the
// registry does not mean that the password is wrong, because the token server would
// reject a wrong password.
func (r *Registry) UsesTokens() bool {
	r.pings.mu.Lock()
	defer r.pings.mu.Unlock()
	return wantsToken(r.pings.header)
}

// authenticator returns the authenticator for a credential. A credential never results in an
// anonymous login.
func authenticator(cred *regcred.Credential) (authn.Authenticator, error) {
	if cred == nil {
		return authn.Anonymous, nil
	}
	if cred.Username == "" {
		return nil, ErrNoUsername
	}
	// go-containerregistry sends nothing if the user name or password is empty, so pass
	// the encoded form.
	return authn.FromConfig(authn.AuthConfig{Auth: basicAuth(cred)}), nil
}

// userAgent is the User-Agent of requests without one.
const userAgent = "regcred"

// ErrPlainHTTPNotAllowed is wrapped by errors that would not have occurred with an
// insecure [Target].
var ErrPlainHTTPNotAllowed = errors.New("plain HTTP is allowed only for loopback registries unless explicitly requested")

// ErrNoUsername is returned for a credential without a user name. It is not sent, because
// containerd rejects such credentials too.
var ErrNoUsername = errors.New("the credential was not sent because it has no user name; container runtimes also reject credentials without a user name")

var (
	errBodyNotReplayable = errors.New("the credential expired while the request body was being sent, and the body cannot be resent: restart the upload")
	errIdleTimeout       = errors.New("idle for too long")
	errTooSlow           = fmt.Errorf("the transfer is too slow (less than %d bytes per minute)", minRateBytes)
)

// StatusCode returns the HTTP status code in an error, or 0.
func StatusCode(err error) int {
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return e.StatusCode
	}
	return 0
}

// errSchemeMismatch is returned for a ping with another URL scheme than the cached ping.
var errSchemeMismatch = errors.New("an earlier request showed that the registry uses the other URL scheme (http or https)")

// pingCache stores the response to the first request for /v2/ for later logins. The
// response contains the authentication that the registry requires.
type pingCache struct {
	mu     sync.Mutex
	scheme string
	status int
	header http.Header
}

func (p *pingCache) store(req *http.Request, resp *http.Response) {
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnauthorized {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scheme, p.status, p.header = req.URL.Scheme, resp.StatusCode, resp.Header.Clone()
}

// wantsToken reports whether go-containerregistry will request a token. go-containerregistry reads
// one challenge from each header line, and uses the first that it supports.
func wantsToken(h http.Header) bool {
	for _, challenge := range h.Values("WWW-Authenticate") {
		switch scheme, _, _ := strings.Cut(challenge, " "); strings.ToLower(scheme) {
		case "bearer":
			return true
		case "basic":
			return false
		}
	}
	return false
}

// learnAnonymous stores resp in place of the cached response to a ping, unless that response
// requires a token. Some registries do not protect /v2/, and some may have been unavailable during
// the ping.
func (p *pingCache) learnAnonymous(resp *http.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scheme != "" && !wantsToken(p.header) {
		p.status, p.header = http.StatusUnauthorized, resp.Header.Clone()
	}
}

// StorePing caches resp as the response to a ping. resp must be a 200 or 401 response to a request
// without credentials. StorePing returns the required authentication. After it, [Registry.Login]
// sends no request for /v2/. Container runtimes that request the image immediately send none
// either.
func (r *Registry) StorePing(ctx context.Context, resp *http.Response) (*transport.Challenge, error) {
	r.pings.store(resp.Request, resp)
	return transport.Ping(ctx, r.Target.Registry, &pinger{inner: r.baseTransport(), pings: &r.pings})
}

// cachedResponse returns the cached response, or nil if there is none.
func (p *pingCache) cachedResponse(req *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.scheme {
	case "":
		return nil, nil
	case req.URL.Scheme:
		return &http.Response{
			Status: http.StatusText(p.status), StatusCode: p.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: p.header.Clone(), Body: http.NoBody, Request: req,
		}, nil
	}
	return nil, errSchemeMismatch
}

// pinger sends the first ping, and returns the cached response for later pings.
type pinger struct {
	inner  http.RoundTripper
	pings  *pingCache
	tokens atomic.Bool // the response requires tokens
}

func (p *pinger) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, content := req.Header[contentHeader]; content || req.URL.Path != "/v2/" || req.Response != nil {
		return p.inner.RoundTrip(req)
	}
	resp, err := p.pings.cachedResponse(req)
	if resp == nil && err == nil {
		if resp, err = p.inner.RoundTrip(req); err == nil {
			p.pings.store(req, resp)
		}
	}
	if err == nil {
		p.tokens.Store(wantsToken(resp.Header))
	}
	return resp, err
}
