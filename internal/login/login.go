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
	inner    http.RoundTripper // with the credential
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
	rt := transport.NewUserAgent(&pinger{r.line(), &r.pings}, userAgent)
	rt, err = transport.NewWithContext(ctx, r.Target.Registry, auth, rt, []string{r.Target.Scope})
	if err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	return &Session{r, rt}, nil
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
func (s *Session) RoundTrip(req *http.Request) (*http.Response, error) {
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
