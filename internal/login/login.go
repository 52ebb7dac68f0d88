// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package login authenticates to a registry with one credential, as a container runtime
// does. It chooses one of the registry's challenges, gets a token if necessary, and sends
// requests again after a 401. It also retries requests and redacts secrets in errors. The
// caller decides which credential to try next.
//
//	r := &login.Registry{Target: target, Secrets: &login.Secrets{}}
//	session, err := r.Login(ctx, &credential)
//	client := &http.Client{Transport: session}
//
// The rules of the runtimes are listed at [Runtime]. regcred's own rules are stricter. A
// credential is sent to the registry and to the token server that the registry names,
// over TLS unless the target allows plain HTTP. It is never sent along with a redirect to
// another host, and never to a metadata server. A credential that the registry rejected is
// not sent again for the same request.
package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred"
)

// Registry describes how to connect to a registry. Its fields must not be changed after
// first use. It is then safe for concurrent use.
type Registry struct {
	Target      Target
	Runtime     Runtime           // whose rules to follow
	Secrets     *Secrets          // collects what must be redacted
	Transport   http.RoundTripper // sends the requests; nil means [http.DefaultTransport]
	IdleTimeout time.Duration     // timeout for a response, ping or token request on which no byte arrives; 0 means 30 seconds
	Budget      *RetryBudget      // shared by all requests; nil means one per request, based on Retry
	Retry       RetryOptions

	// ResponseTimeout ends a request for content, or an upload, if the server neither accepts a
	// byte nor responds for this long; 0 means five minutes, as containerd's
	// image_pull_progress_timeout.
	ResponseTimeout time.Duration

	mu        sync.Mutex
	scheme    string     // URL scheme that the registry supports; "" before the first response
	challenge *Challenge // the last challenge; nil if there was none
}

// Session is a round tripper for requests to a registry and to the hosts to which the
// registry redirects. It is safe for concurrent use.
type Session struct {
	registry *Registry
	cred     *regcred.Credential
	lock     chan struct{} // held while authorizing
	current  atomic.Pointer[authorization]
}

// authorization is the value of an Authorization header.
type authorization struct {
	header  string
	scopes  []string  // of a token; nil for Basic
	expires time.Time // zero if it does not expire

	accepted atomic.Bool // by the registry
}

// Login returns a session for a credential, or for anonymous requests. It requests a token if the
// registry requires one, but does not test passwords for Basic authentication.
//
// The first call requests /v2/ for the registry's challenge, unless [Registry.Learn] was called
// before. Except for containers/image, its status does not matter (but for 429), because some
// registries serve only some repositories. The session then learns the challenge from the first 401.
func (r *Registry) Login(ctx context.Context, cred *regcred.Credential) (*Session, error) {
	r.Secrets.AddCredential(cred)
	s := &Session{registry: r, cred: cred, lock: make(chan struct{}, 1)}
	if r.knownScheme() == "" {
		if err := r.requestChallenge(ctx); err != nil {
			return nil, fmt.Errorf("login: %w", err)
		}
	}
	if _, err := s.authorizationFor(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (r *Registry) requestChallenge(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.Target.Host()+"/v2/", nil)
	if err != nil {
		return err
	}
	resp, err := r.sendToRegistry(req, "")
	if err != nil {
		return err
	}
	defer drainBody(resp)
	if r.Runtime == ContainersImage || resp.StatusCode == http.StatusTooManyRequests {
		return transport.CheckError(resp, http.StatusOK, http.StatusUnauthorized)
	}
	return nil
}

// Learn stores the URL scheme and the challenge in a response of the registry to a request
// without a credential. It returns the challenge that the runtime chooses, or nil.
func (r *Registry) Learn(resp *http.Response) *Challenge {
	return r.learnChallenge(resp.Request.URL.Scheme, resp, false)
}

// learnChallenge is like Learn. A response to a request with a credential is about that request only, which
// may have been for another repository, so its scope is not stored.
func (r *Registry) learnChallenge(scheme string, resp *http.Response, authorized bool) *Challenge {
	r.mu.Lock()
	defer r.mu.Unlock()
	if scheme == "https" || r.Target.allowsPlainHTTP {
		r.scheme = scheme
	}
	if resp.StatusCode != http.StatusUnauthorized {
		return nil
	}
	c := r.Runtime.chooseChallenge(resp.Header)
	if c != nil {
		stored := *c
		if authorized {
			stored.Parameters = maps.Clone(c.Parameters)
			delete(stored.Parameters, "scope")
		}
		r.challenge = &stored
	}
	return c
}

func (r *Registry) lastChallenge() *Challenge {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.challenge
}

func (r *Registry) knownScheme() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.scheme
}

// UsesTokens reports whether the registry's last challenge required a token. If so, a 401 from the
// registry does not mean that the password is wrong, because the token server would
// reject a wrong password.
func (r *Registry) UsesTokens() bool {
	c := r.lastChallenge()
	return c != nil && c.Scheme == SchemeBearer
}

// newTransport returns the transport that sends all requests. forToken is true for requests to token
// servers.
func (r *Registry) newTransport(forToken bool) http.RoundTripper {
	return &retrier{budget: r.Budget, retry: r.Retry, forToken: forToken, inner: &limitedTransport{
		inner: cmp.Or(r.Transport, http.DefaultTransport), target: r.Target,
		idle: cmp.Or(r.IdleTimeout, 30*time.Second), response: cmp.Or(r.ResponseTimeout, 5*time.Minute), secrets: r.Secrets, forToken: forToken,
	}}
}

// RoundTrip sends a request without credentials, for example to a redirect target.
func (r *Registry) RoundTrip(req *http.Request) (*http.Response, error) {
	return r.sendWith(req, "")
}

// userAgent is the User-Agent of requests without one.
const userAgent = "regcred"

// sendWith sends a copy of a request.
func (r *Registry) sendWith(req *http.Request, authorization string) (*http.Response, error) {
	req = req.Clone(req.Context())
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if req.UserAgent() == "" {
		req.Header.Set("User-Agent", userAgent)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return r.newTransport(false).RoundTrip(req)
}

// sendToRegistry sends a request over TLS. If the target allows plain HTTP, it tries both until the
// registry responds.
func (r *Registry) sendToRegistry(req *http.Request, authorization string) (*http.Response, error) {
	schemes := []string{"https"}
	if r.Target.Registry.Scheme() == "http" { // also for private addresses, where checkURL rejects it
		schemes = []string{"https", "http"}
	}
	if s := r.knownScheme(); s != "" {
		schemes = []string{s}
	}
	var failed []error
	for i, scheme := range schemes {
		again := req
		if i > 0 {
			if again = cloneForResend(req); again == nil {
				break
			}
		}
		again = again.Clone(req.Context())
		again.URL.Scheme = scheme
		resp, err := r.sendWith(again, authorization)
		if err == nil {
			r.learnChallenge(scheme, resp, authorization != "")
			return resp, nil
		}
		if failed = append(failed, err); req.Context().Err() != nil {
			break
		}
	}
	if len(failed) == 2 {
		return nil, fmt.Errorf("%w; over plain HTTP: %w", failed[0], failed[1])
	}
	return nil, failed[0]
}

// maxLogins limits how often a request is sent again after a 401.
const maxLogins = 2

// RoundTrip implements [http.RoundTripper]. It authenticates requests to the registry
// ([Target.IsToRegistry]). To other hosts it sends no credential, only an anonymous token if
// they require one.
func (s *Session) RoundTrip(req *http.Request) (*http.Response, error) {
	target := s.registry.Target
	switch {
	case target.IsToRegistry(req):
		return s.sendToRegistry(req)
	case target.matchesHost(req.URL.Scheme, req.URL.Host):
		return s.registry.RoundTrip(req) // the Host header has another name
	}
	return s.sendToOther(req)
}

func (s *Session) sendToRegistry(req *http.Request) (*http.Response, error) {
	auth, err := s.authorizationFor(req.Context())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	for n := 0; ; n++ {
		resp, err := s.registry.sendToRegistry(req, auth.headerValue())
		if err != nil || resp.StatusCode != http.StatusUnauthorized || n == maxLogins {
			if auth != nil && err == nil {
				auth.accepted.Store(resp.StatusCode != http.StatusUnauthorized)
			}
			return resp, err
		}
		next, err := s.authorizeAgain(req.Context(), resp, auth)
		if err != nil {
			resp.Body.Close()
			return nil, err
		}
		if next == nil {
			return resp, nil
		}
		again := cloneForResend(req)
		switch {
		case again == nil && auth.headerValue() == "":
			return resp, nil
		case again == nil:
			resp.Body.Close()
			return nil, errBodyNotReplayable
		}
		drainBody(resp)
		auth, req = next, again
	}
}

// authorizationFor returns the authorization for a new request, or nil if there is none yet.
func (s *Session) authorizationFor(ctx context.Context) (*authorization, error) {
	auth, c := s.current.Load(), s.registry.lastChallenge()
	if c == nil || auth != nil && (auth.expires.IsZero() || time.Now().Before(auth.expires)) {
		return auth, nil
	}
	return s.renewAuthorization(ctx, c, auth)
}

// authorizeAgain returns another authorization after a 401, or nil if there is none.
func (s *Session) authorizeAgain(ctx context.Context, resp *http.Response, auth *authorization) (*authorization, error) {
	rt := s.registry.Runtime
	c := rt.chooseChallenge(resp.Header)
	switch {
	case c != nil && c.Scheme == SchemeBasic && s.cred != nil && !rt.sendsBasic(s.cred):
		return nil, fmt.Errorf("login: %w", ErrIncompleteCredential)
	case c == nil, rt == ContainersImage && c.Parameters["error"] != "insufficient_scope":
		return nil, nil
	case auth != nil && auth.scopes == nil && (c.Scheme == SchemeBasic || rt == Containerd):
		return nil, nil // the registry rejected the password
	case c.Scheme == SchemeBearer && auth != nil && !auth.accepted.Load() && auth.coversScopes(rt.tokenScopes(s.registry.Target.Scope, c)):
		return nil, nil // the registry rejected a new token
	}
	return s.renewAuthorization(ctx, c, auth)
}

// coversScopes reports whether an authorization is a token for all the scopes.
func (a *authorization) coversScopes(scopes []string) bool {
	for _, scope := range scopes {
		if !slices.Contains(a.scopes, scope) {
			return false
		}
	}
	return true
}

// renewAuthorization replaces the authorization after, unless a concurrent request has replaced it. It returns nil
// if there is no usable credential for Basic authentication.
func (s *Session) renewAuthorization(ctx context.Context, c *Challenge, after *authorization) (*authorization, error) {
	select {
	case s.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.lock }()
	if now := s.current.Load(); now != after {
		return now, nil
	}
	next, err := s.newAuthorization(ctx, c, after)
	if err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	s.current.Store(next)
	return next, nil
}

// maxScopes limits the scopes that a token collects. A registry may request more with each 401.
const maxScopes = 20

func (s *Session) newAuthorization(ctx context.Context, c *Challenge, after *authorization) (*authorization, error) {
	r := s.registry
	if c.Scheme == SchemeBasic {
		if !r.Runtime.sendsBasic(s.cred) {
			return nil, nil
		}
		return &authorization{header: "Basic " + basicAuth(s.cred)}, nil
	}
	scopes := r.Runtime.tokenScopes(r.Target.Scope, c)
	if after != nil { // put the new scopes first, because some servers read only one
		for _, scope := range after.scopes[:min(len(after.scopes), max(0, maxScopes-len(scopes)))] {
			if !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	username, password := usernamePassword(s.cred)
	got, err := r.fetchToken(ctx, c, scopes, username, password)
	if err != nil {
		return nil, err
	}
	return &authorization{header: "Bearer " + got.value, scopes: scopes, expires: got.expires}, nil
}

// headerValue returns the header's value. a may be nil.
func (a *authorization) headerValue() string {
	if a == nil {
		return ""
	}
	return a.header
}

// sendToOther sends a request to a host to which the registry redirects.
func (s *Session) sendToOther(req *http.Request) (*http.Response, error) {
	r := s.registry
	resp, err := r.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	c := r.Runtime.chooseChallenge(resp.Header)
	again := cloneForResend(req)
	if c == nil || c.Scheme != SchemeBearer || again == nil {
		return resp, nil
	}
	got, err := r.fetchToken(req.Context(), c, strings.Fields(c.Parameters["scope"]), "", "")
	if err != nil {
		return resp, nil
	}
	drainBody(resp)
	return r.sendWith(again, "Bearer "+got.value)
}

// drainBody reads the rest of an error response, so that its connection can be reused.
func drainBody(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBodySize)
	resp.Body.Close()
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

func canResend(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// cloneForResend returns a copy of a request for sending it again, or nil if its body
// cannot be read again.
func cloneForResend(req *http.Request) *http.Request {
	if req.Body == nil || req.Body == http.NoBody {
		return req
	}
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	req = req.Clone(req.Context())
	req.Body = body
	return req
}

// ErrPlainHTTPNotAllowed is wrapped by errors that would not have occurred with an
// insecure [Target].
var ErrPlainHTTPNotAllowed = errors.New("plain HTTP is allowed only for loopback registries unless explicitly requested")

// ErrIncompleteCredential is returned if the registry requires Basic authentication, but the runtime does not
// send the credential, because it has no user name or no password.
var ErrIncompleteCredential = errors.New("the registry requires Basic authentication, but the credential has no user name or no password, so container runtimes do not send it")

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
