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

// refusalTTL is how long a credential is not retried after a 401.
const refusalTTL = time.Minute

// candidate is one credential at one registry.
type candidate struct {
	keyring   *regcred.Keyring
	cred      atomic.Pointer[regcred.Credential] // nil: anonymous
	loginCall sharedCall

	mu        sync.Mutex // guards the fields below
	session   *login.Session
	refusal   refusal   // the last 401
	refusedAt time.Time // when the credential was rejected
}

func newCandidate(k *regcred.Keyring, cred *regcred.Credential) *candidate {
	c := &candidate{keyring: k}
	c.cred.Store(cred)
	return c
}

// copyRefusal copies the refusal of a candidate with the same user name and
// password.
func (c *candidate) copyRefusal(from *candidate) {
	from.mu.Lock()
	defer from.mu.Unlock()
	c.refusal, c.refusedAt = from.refusal, from.refusedAt
}

// refusedError is returned if another credential may work.
type refusedError struct {
	refusal
	final bool // do not try another credential
}

func (e *refusedError) Error() string { return e.message() }

// login returns the session. Concurrent requests log in only once.
func (c *candidate) login(ctx context.Context, registry *login.Registry) (*login.Session, error) {
	for {
		if s, err := c.cachedSession(); s != nil || err != nil {
			return s, err
		}
		_, err := c.loginCall.do(ctx, func() error {
			s, err := registry.Login(ctx, c.cred.Load())
			if err != nil {
				return c.recordRefusal(c.asRefusedError(err, nil, registry), true, true)
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

// cachedSession returns the session, or the refusal if it is recent.
func (c *candidate) cachedSession() (*login.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal.Err != nil && time.Since(c.refusedAt) < refusalTTL {
		return nil, &refusedError{refusal: c.refusal}
	}
	return c.session, nil
}

// storeRefusal records that the password was rejected with 401.
func (c *candidate) storeRefusal(r refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal, c.refusedAt, c.session = r, time.Now(), nil
}

// asRefusedError returns a [*refusedError] if err is a response from the registry or its
// token server, in which case another credential may work.
func (c *candidate) asRefusedError(err error, header http.Header, registry *login.Registry) error {
	r := refusal{login.NewFailedAttempt(c.cred.Load(), err, registry.Secrets), header}
	for _, values := range r.header { // a server may return secrets that it received
		for i, v := range values {
			values[i] = registry.Secrets.Redact(v)
		}
	}
	if r.Status == 0 && !errors.Is(err, login.ErrIncompleteCredential) {
		return r.Err
	}
	return &refusedError{refusal: r}
}

// recordRefusal records a 401 and invalidates the credential in the Keyring. It ignores
// a 401 to a write, because some credentials may only pull. If password is false, the
// registry rejected a token, so the password itself is not marked as rejected.
func (c *candidate) recordRefusal(err error, read, password bool) error {
	r, ok := errors.AsType[*refusedError](err)
	if !ok || r.Status != http.StatusUnauthorized || !read {
		return err
	}
	if password {
		c.storeRefusal(r.refusal)
	}
	if cred := c.cred.Load(); cred != nil {
		c.keyring.Invalidate(*cred)
	}
	return err
}

// send sends a request with the credential. It returns a [*refusedError] if
// another credential may work.
func (c *candidate) send(req *http.Request, out *outcome, registry *login.Registry, accepted bool) (*http.Response, error) {
	s, err := c.login(req.Context(), registry)
	if err != nil {
		return nil, err
	}
	next, err := out.nextRequest(req)
	if err != nil {
		return nil, err
	}
	resp, err := s.RoundTrip(next)
	switch {
	case err != nil: // any status comes from the token server
		return nil, c.recordRefusal(c.asRefusedError(err, nil, registry), isReadRequest(req), true)
	case resp.StatusCode < http.StatusBadRequest:
		return resp, nil
	}
	err = c.recordRefusal(c.asRefusedError(statusError(resp), resp.Header, registry), isReadRequest(req), !registry.UsesTokens())
	if r, ok := errors.AsType[*refusedError](err); ok {
		r.final = !isRefusal(req, resp.StatusCode, accepted)
	}
	return nil, err
}

// statusError reads the error of a response and closes its body.
func statusError(resp *http.Response) error {
	defer resp.Body.Close()
	err := transport.CheckError(resp)
	if _, ok := errors.AsType[*transport.Error](err); !ok {
		err = &transport.Error{StatusCode: resp.StatusCode, Request: resp.Request} // the body was truncated
	}
	return err
}

// isRefusal reports whether another credential may work after a response with this
// status.
func isRefusal(req *http.Request, status int, accepted bool) bool {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return true
	case !isReadRequest(req):
		return false
	case status == http.StatusNotFound:
		return !accepted
	}
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

func isReadRequest(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodHead
}
