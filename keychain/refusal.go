// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/regcred/regcred/internal/login"
)

// This file decides what a 401 means. Usually the password is wrong, and must not be sent again
// for a while. But some registries also return 401 for content that is missing or that the user may
// not see. A 401 to a credential that the registry accepted before is therefore checked with one
// request for /v2/.

// recordAccepted records that the registry accepted a request that was sent at the given time. It
// ignores a request that was sent before the password was rejected.
func (c *candidate) recordAccepted(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent.After(c.acceptedAt) && sent.After(c.refusedAt) {
		c.acceptedAt, c.refusal = sent, refusal{}
	}
}

// recordNotRejected records a 403 or 404. These suggest that the password is right, but do not
// show it as clearly as success.
func (c *candidate) recordNotRejected(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.acceptedAt.IsZero() && sent.After(c.refusedAt) {
		c.acceptedAt = sent
	}
}

func (c *candidate) wasAccepted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.acceptedAt.IsZero()
}

// recordRefusal records that the password was rejected, and invalidates the credential in the Keyring.
func (c *candidate) recordRefusal(r refusal, readsOnly bool) {
	c.mu.Lock()
	c.refusal, c.refusedAt, c.session, c.readsOnly, c.acceptedAt = r, time.Now(), nil, readsOnly, time.Time{}
	c.mu.Unlock()
	c.invalidate()
}

func (c *candidate) invalidate() {
	if cred := c.cred.Load(); cred != nil {
		c.keyring.Invalidate(*cred)
	}
}

// refuseIf401 records an error of a login if its status is 401. It returns err.
func (c *candidate) refuseIf401(err error, readsOnly bool) error {
	if r, ok := errors.AsType[*refusedError](err); ok && r.Status == http.StatusUnauthorized {
		c.recordRefusal(r.refusal, readsOnly)
	}
	return err
}

// recordTokenError records that the token server rejected a request for another token. It ignores
// tokens for writes, because some credentials may only pull. A credential that was accepted before
// gets one more request for the repository's token, because the failed one may have been for
// more. recordTokenError returns err.
func (c *candidate) recordTokenError(err error, req *http.Request, r *credentialSet) error {
	if !isReadRequest(req) {
		return err
	}
	if refused, ok := errors.AsType[*refusedError](err); ok && refused.Status == http.StatusUnauthorized && c.wasAccepted() {
		if _, again := r.registry.Login(req.Context(), c.cred.Load()); again == nil || req.Context().Err() != nil {
			return err
		}
	}
	return c.refuseIf401(err, false)
}

// recordUnauthorized records a 401 from the registry to a request that was sent at the given time.
func (c *candidate) recordUnauthorized(e *refusedError, req *http.Request, sent time.Time, s *login.Session, r *credentialSet) {
	read, accepted := isReadRequest(req), c.wasAccepted()
	switch {
	case r.registry.UsesTokens(): // the token server accepted the password
		if read && !accepted {
			c.invalidate()
		}
	case c.cred.Load() == nil && accepted: // there is no password
	case !read && c.refusedReads():
		c.recordRefusal(e.refusal, false)
	case accepted || !read || r.hides.Load():
		c.checkPassword(e.refusal, req, sent, s, r)
	default:
		c.recordRefusal(e.refusal, true)
	}
}

// checkPassword finds out whether a 401 was about the password. If so, it calls refuse. Concurrent
// requests share the check.
func (c *candidate) checkPassword(e refusal, req *http.Request, sent time.Time, s *login.Session, r *credentialSet) {
	for {
		c.mu.Lock()
		works, refused := !c.acceptedAt.Before(sent), c.isRefused()
		c.mu.Unlock()
		if works {
			r.hides.Store(true)
		}
		if works || refused {
			return
		}
		_, err := c.checkCall.doOnce(req.Context(), func() error {
			sent := time.Now()
			works := r.pingProves(req, s)
			switch {
			case req.Context().Err() != nil:
				return context.Cause(req.Context())
			case works:
				c.recordAccepted(sent)
			default:
				c.recordRefusal(e, false)
			}
			return nil
		})
		if err != nil {
			return
		}
	}
}

// pingProves reports whether the registry accepts the session's credential for /v2/, and rejects
// requests for it without one.
func (r *credentialSet) pingProves(req *http.Request, s *login.Session) bool {
	if status := pingStatus(req, s); status != http.StatusOK && status != http.StatusForbidden {
		return false
	}
	if !r.protected.Load() {
		r.protected.Store(pingStatus(req, r.registry) == http.StatusUnauthorized)
	}
	return r.protected.Load()
}

// pingStatus returns the status of the response to a request for /v2/, or 0.
func pingStatus(req *http.Request, rt http.RoundTripper) int {
	ping := (&http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: "/v2/"}, Header: http.Header{},
	}).WithContext(login.WithoutRateLimitWait(req.Context()))
	resp, err := rt.RoundTrip(ping)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxBodySize) // so that the connection can be reused
	return resp.StatusCode
}
