// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package login speaks to a registry with one credential: it finds out how the
// registry wants to be asked, gets a token if it wants one, repeats what is worth
// repeating, and keeps what must not be shown out of what it says. What to do
// with the next credential is its caller's business.
//
//	r := &login.Registry{Target: target, Secrets: &login.Secrets{}}
//	session, err := r.Login(ctx, &credential)
//	client := &http.Client{Transport: session}
//
// A credential goes to the registry and to the token server that this names,
// over TLS unless the target allows plain HTTP, and never along with a redirect.
package login

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred"
)

// Registry is one, and how to speak to it. Its fields do not change once it is
// used; it is safe for concurrent use then.
type Registry struct {
	Target    Target
	Secrets   *Secrets          // learns what must not be shown
	Transport http.RoundTripper // makes the requests; nil means [http.DefaultTransport]
	Idle      time.Duration     // ends a request on which no byte arrives for so long; 0 means 30 seconds
	Budget    *Budget           // of all that is asked; nil means one for each request, by Retry
	Retry     Retry

	pings pings
}

// Session is a login at a registry: a round tripper for what is wanted there,
// and for where it redirects to. It is safe for concurrent use.
type Session struct {
	registry *Registry
	cred     *regcred.Credential
	inner    http.RoundTripper // with the credential
	tokens   bool              // with a token for it

	gate chan struct{}           // held by who logs in anew
	next atomic.Pointer[Session] // with a token, which the registry had not said that it wants
}

// Login finds out how the registry wants to be asked, once for all credentials,
// and gets a token if it wants one. With Basic authentication a password is not
// tested here. Without a credential the login is anonymous.
func (r *Registry) Login(ctx context.Context, cred *regcred.Credential) (*Session, error) {
	auth, err := authenticator(cred)
	if err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	r.Secrets.Credential(cred)
	p := &pinger{inner: r.line(), pings: &r.pings}
	rt, err := transport.NewWithContext(ctx, r.Target.Registry, auth, transport.NewUserAgent(p, userAgent), []string{r.Target.Scope})
	if err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	return &Session{registry: r, cred: cred, inner: rt, tokens: p.tokens.Load(), gate: make(chan struct{}, 1)}, nil
}

// line is what every request passes.
func (r *Registry) line() http.RoundTripper {
	return &retrier{budget: r.Budget, retry: r.Retry, inner: &wire{
		inner: cmp.Or(r.Transport, http.DefaultTransport), target: r.Target,
		idle: cmp.Or(r.Idle, 30*time.Second), secrets: r.Secrets,
	}}
}

// RoundTrip is that of [http.RoundTripper]: with the credential to the registry
// ([Target.Owns]), without to others, and with a token there that anybody gets if
// one is demanded.
//
// A registry that wants a token for it, and said nothing of that before, gets one
// from then on, as of a container runtime, which logs in at the first refusal.
func (s *Session) RoundTrip(req *http.Request) (*http.Response, error) {
	if next := s.next.Load(); next != nil {
		return next.roundTrip(req)
	}
	resp, err := s.roundTrip(req)
	if err != nil || s.tokens || resp.StatusCode != http.StatusUnauthorized || !wantsToken(resp.Header) || !s.registry.Target.Owns(req) {
		return resp, err
	}
	again := repeated(req)
	if again == nil {
		return resp, nil
	}
	resp.Body.Close()
	next, err := s.logInAnew(req.Context(), resp)
	if err != nil {
		return nil, err
	}
	return next.roundTrip(again)
}

// logInAnew gets a token, once for all requests.
func (s *Session) logInAnew(ctx context.Context, resp *http.Response) (*Session, error) {
	select {
	case s.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.gate }()
	if next := s.next.Load(); next != nil {
		return next, nil
	}
	s.registry.pings.learn(resp)
	next, err := s.registry.Login(ctx, s.cred)
	if err != nil {
		return nil, err
	}
	s.next.Store(next)
	return next, nil
}

func (s *Session) roundTrip(req *http.Request) (*http.Response, error) {
	target := s.registry.Target
	marked := mark(req)
	switch {
	case target.Owns(req):
		marked.URL.Host = target.Host() // go-containerregistry knows it by this spelling alone
	case target.isAt(req.URL.Scheme, req.URL.Host):
		return s.registry.RoundTrip(req)
	}
	// By the registry's name in it go-containerregistry would take any request
	// for the registry's.
	marked.Host = ""
	return s.inner.RoundTrip(marked)
}

// RoundTrip makes a request without any login, as for where a registry
// redirects to.
func (r *Registry) RoundTrip(req *http.Request) (*http.Response, error) {
	return transport.NewUserAgent(r.line(), userAgent).RoundTrip(mark(req))
}

// Tokens reports whether the registry wants tokens. What it then refuses with 401
// is no wrong password: that its token server refuses.
func (r *Registry) Tokens() bool { return r.pings.tokens() }

// authenticator never makes an anonymous login of a credential.
func authenticator(cred *regcred.Credential) (authn.Authenticator, error) {
	if cred == nil {
		return authn.Anonymous, nil
	}
	if cred.Username == "" {
		return nil, ErrNoUser
	}
	// Not as user name and password: go-containerregistry sends nothing at
	// all where one of them is empty.
	return authn.FromConfig(authn.AuthConfig{Auth: basicAuth(cred)}), nil
}

// userAgent is how requests are signed whose maker says nothing.
const userAgent = "regcred"
