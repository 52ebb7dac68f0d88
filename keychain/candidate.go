// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/login"
)

// refusedFor is for how long a credential that got 401 is not sent again.
const refusedFor = time.Minute

// candidate is one credential at one registry.
type candidate struct {
	keyring *regcred.Keyring
	cred    atomic.Pointer[regcred.Credential] // nil: anonymous
	logins  flight

	mu      sync.Mutex // guards what follows
	session *login.Session
	refusal refusal   // the last 401
	refused time.Time // when
}

func newCandidate(k *regcred.Keyring, cred *regcred.Credential) *candidate {
	c := &candidate{keyring: k}
	c.cred.Store(cred)
	return c
}

// remember takes over what is known of the same user name and password.
func (c *candidate) remember(of *candidate) {
	of.mu.Lock()
	defer of.mu.Unlock()
	c.refusal, c.refused = of.refusal, of.refused
}

// refusedError is what became of a candidate.
type refusedError struct {
	refusal
	final bool // another will do no better
}

func (e *refusedError) Error() string { return e.message() }

// login logs in once for all requests.
func (c *candidate) login(ctx context.Context, registry *login.Registry) (*login.Session, error) {
	for {
		if s, err := c.known(); s != nil || err != nil {
			return s, err
		}
		_, err := c.logins.do(ctx, func() error {
			s, err := registry.Login(ctx, c.cred.Load())
			if err != nil {
				return c.note(c.explain(err, nil, registry), true, true)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.session = s
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
}

// known is what there is to know without asking, or nothing.
func (c *candidate) known() (*login.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal.Err != nil && time.Since(c.refused) < refusedFor {
		return nil, &refusedError{refusal: c.refusal}
	}
	return c.session, nil
}

// refuse remembers a 401 to the password.
func (c *candidate) refuse(r refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal, c.refused, c.session = r, time.Now(), nil
}

// explain says what an error of the registry's or of its token server's means. It
// is a [*refusedError] where another credential may do better.
func (c *candidate) explain(err error, header http.Header, registry *login.Registry) error {
	r := refusal{login.NewTry(c.cred.Load(), err, registry.Secrets), header}
	for _, values := range r.header { // a server may send anything back
		for i, v := range values {
			values[i] = registry.Secrets.Scrub(v)
		}
	}
	if r.Status == 0 && !errors.Is(err, login.ErrNoUser) {
		return r.Err
	}
	return &refusedError{refusal: r}
}

// note remembers a 401, and tells the Keyring. One to a request that would change
// something says nothing of others: there are credentials that may pull alone. Nor
// does that of a registry to a token: its password was good enough for one.
func (c *candidate) note(err error, read, password bool) error {
	r, ok := errors.AsType[*refusedError](err)
	if !ok || r.Status != http.StatusUnauthorized || !read {
		return err
	}
	if password {
		c.refuse(r.refusal)
	}
	if cred := c.cred.Load(); cred != nil {
		c.keyring.Invalidate(*cred)
	}
	return err
}

// send sends a request with the credential. Its error is a [*refusedError] where
// another may do better.
func (c *candidate) send(req *http.Request, out *outcome, registry *login.Registry, accepted bool) (*http.Response, error) {
	s, err := c.login(req.Context(), registry)
	if err != nil {
		return nil, err
	}
	next, err := out.next(req)
	if err != nil {
		return nil, err
	}
	resp, err := s.RoundTrip(next)
	switch {
	case err != nil: // if it has a status that is the token server's
		return nil, c.note(c.explain(err, nil, registry), isRead(req), true)
	case resp.StatusCode < http.StatusBadRequest:
		return resp, nil
	}
	err = c.note(c.explain(statusError(resp), resp.Header, registry), isRead(req), !registry.Tokens())
	if r, ok := errors.AsType[*refusedError](err); ok {
		r.final = !refuses(req, resp.StatusCode, accepted)
	}
	return nil, err
}

// statusError reads what a registry says of a refusal, and closes the answer.
func statusError(resp *http.Response) error {
	defer resp.Body.Close()
	err := transport.CheckError(resp)
	if _, ok := errors.AsType[*transport.Error](err); !ok {
		err = &transport.Error{StatusCode: resp.StatusCode, Request: resp.Request} // it broke off
	}
	return err
}

// refuses reports whether another credential may do better.
func refuses(req *http.Request, status int, accepted bool) bool {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return true
	case !isRead(req):
		return false
	case status == http.StatusNotFound:
		return !accepted
	}
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

func isRead(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodHead
}
