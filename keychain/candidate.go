// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"context"
	"errors"
	"net/http"
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
	cred    *regcred.Credential // nil: anonymous

	turn    chan struct{} // taken by who looks at the following, and who logs in
	session *login.Session
	refusal refusal   // the last 401
	refused time.Time // when
}

func newCandidate(k *regcred.Keyring, cred *regcred.Credential) *candidate {
	return &candidate{keyring: k, cred: cred, turn: make(chan struct{}, 1)}
}

// refusedError is what became of a candidate.
type refusedError struct {
	refusal
	fresh bool // and not remembered
}

func (e *refusedError) Error() string { return e.message() }

// login logs in once for all requests.
func (c *candidate) login(ctx context.Context, registry *login.Registry) (*login.Session, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.refusal.Err != nil && time.Since(c.refused) < refusedFor {
		return nil, &refusedError{refusal: c.refusal}
	}
	if c.session != nil {
		return c.session, nil
	}
	s, err := registry.Login(ctx, c.cred)
	if err != nil {
		r, err := c.explain(err, nil, registry)
		c.refuse(r)
		return nil, err
	}
	c.session = s
	return s, nil
}

// refuse remembers a 401; with the turn. Of a request that would change something
// none is: there are credentials that may pull alone.
func (c *candidate) refuse(r refusal) {
	if r.Status != http.StatusUnauthorized {
		return
	}
	c.refusal, c.refused, c.session = r, time.Now(), nil
	if c.cred != nil {
		c.keyring.Invalidate(*c.cred)
	}
}

// explain says what an error of the registry's or of its token server's means. It
// is a [*refusedError] where another credential may do better.
func (c *candidate) explain(err error, header http.Header, registry *login.Registry) (refusal, error) {
	r := refusal{login.NewTry(c.cred, err, registry.Secrets), header}
	if r.Status == 0 && !errors.Is(err, login.ErrNoUser) {
		return r, r.Err
	}
	return r, &refusedError{r, true}
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
	if err == nil && !refuses(req, resp.StatusCode, accepted) {
		return resp, nil
	}
	var header http.Header
	if err == nil {
		header = resp.Header
		err = statusError(resp)
	}
	r, err := c.explain(err, header, registry)
	if isRead(req) && r.Status == http.StatusUnauthorized {
		c.turn <- struct{}{}
		c.refuse(r)
		<-c.turn
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
