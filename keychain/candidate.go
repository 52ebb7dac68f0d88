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

// refusalTTL is how long a password is not sent again after a 401.
const refusalTTL = time.Minute

// candidate is one credential that a Transport can try at a registry, and its session.
type candidate struct {
	keyring   *regcred.Keyring
	cred      atomic.Pointer[regcred.Credential] // nil: anonymous
	loginCall sharedCall

	checkCall sharedCall

	mu         sync.Mutex // guards the fields below
	session    *login.Session
	refusal    refusal   // the last 401 that was about the password
	refusedAt  time.Time // when the credential was rejected
	readsOnly  bool      // only reads were rejected: the credential may still be for writes
	acceptedAt time.Time // when the last accepted request was sent; zero: never, or rejected since
}

func newCandidate(k *regcred.Keyring, cred *regcred.Credential) *candidate {
	c := &candidate{keyring: k}
	c.cred.Store(cred)
	return c
}

// copyRefusal copies the last 401 of another candidate, which must have the same user name
// and password.
func (c *candidate) copyRefusal(from *candidate) {
	from.mu.Lock()
	defer from.mu.Unlock()
	c.refusal, c.refusedAt, c.readsOnly, c.acceptedAt = from.refusal, from.refusedAt, from.readsOnly, from.acceptedAt
}

// refusedError is returned if the registry or its token server rejects a request. Another
// credential may work unless final is set.
type refusedError struct {
	refusal
	final bool // do not try another credential
}

func (e *refusedError) Error() string { return e.describe() }

// logIn returns the session, and logs in if there is none. Concurrent requests share one
// login.
func (c *candidate) logIn(ctx context.Context, registry *login.Registry, read bool) (*login.Session, error) {
	for {
		if s, err := c.cachedSession(read); s != nil || err != nil {
			return s, err
		}
		_, err := c.loginCall.doOnce(ctx, func() error {
			s, err := registry.Login(ctx, c.cred.Load())
			if err != nil {
				return c.refuseIf401(c.asRefusedError(err, nil, registry), false)
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

// cachedSession returns the session, or nil if there is none. If the password was rejected
// less than refusalTTL ago, it returns that rejection as an error.
func (c *candidate) cachedSession(read bool) (*login.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isRefused() && (read || !c.readsOnly) {
		return nil, &refusedError{refusal: c.refusal}
	}
	return c.session, nil
}

// isRefused reports whether there is a recent refusal. It is called with the lock held.
func (c *candidate) isRefused() bool {
	return c.refusal.Err != nil && time.Since(c.refusedAt) < refusalTTL
}

// refusedReads reports whether there is a recent refusal of reads only.
func (c *candidate) refusedReads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isRefused() && c.readsOnly
}

// asRefusedError returns a [*refusedError] if the registry or its token server sent an
// error, or if the credential has no user name. It returns other errors, such as network
// errors, with secrets redacted.
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

// send sends a request with the credential. It returns a [*refusedError] if
// its token server rejects the request.
func (c *candidate) send(req *http.Request, out *outcome, r *credentialSet, accepted bool) (*http.Response, error) {
	s, err := c.logIn(req.Context(), r.registry, isReadRequest(req))
	if err != nil {
		return nil, err
	}
	next, err := out.nextRequest(req)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	resp, err := s.RoundTrip(next)
	switch {
	case err != nil: // a status in err is from the token server
		return nil, c.recordTokenError(c.asRefusedError(err, nil, r.registry), req, r)
	case resp.StatusCode < http.StatusBadRequest:
		c.recordAccepted(sent)
		return resp, nil
	}
	err = c.asRefusedError(statusError(resp), resp.Header, r.registry)
	refused, ok := errors.AsType[*refusedError](err)
	if !ok {
		return nil, err
	}
	refused.final = !isRefusal(req, resp.StatusCode, accepted)
	switch resp.StatusCode {
	case http.StatusForbidden, http.StatusNotFound:
		c.recordNotRejected(sent)
	case http.StatusUnauthorized:
		c.recordUnauthorized(refused, req, sent, s, r)
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

// isRefusal reports whether another credential may work after a response with this status.
// accepted is true if the registry has accepted this credential before.
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
