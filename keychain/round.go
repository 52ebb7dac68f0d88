// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/login"
)

// round is what one lookup found, and what has become of it at the registry.
type round struct {
	candidates []*candidate
	creds      []regcred.Credential
	registry   *login.Registry

	accepted atomic.Pointer[candidate]
	scouted  atomic.Bool   // every candidate was tried, or one was accepted
	scout    chan struct{} // taken by the request that does that

	renewed time.Time // when the Keyring was last asked because of a refusal; with Transport.turn
}

func newRound(k *regcred.Keyring, registry *login.Registry, creds []regcred.Credential) *round {
	r := &round{creds: creds, registry: registry, scout: make(chan struct{}, 1)}
	for i := range creds {
		r.candidates = append(r.candidates, newCandidate(k, &creds[i]))
	}
	if len(creds) == 0 {
		r.candidates = append(r.candidates, newCandidate(k, nil)) // anonymous
	}
	return r
}

// has reports whether a lookup found nothing else. A nil round has nothing.
func (r *round) has(creds []regcred.Credential) bool {
	return r != nil && slices.EqualFunc(r.creds, creds, func(a, b regcred.Credential) bool {
		return a.Username == b.Username && a.Password.Equal(b.Password)
	})
}

func (r *round) credential() *regcred.Credential {
	if c := r.accepted.Load(); c != nil {
		return c.cred
	}
	return nil
}

// pass sends what a registry has redirected elsewhere. No credential goes along.
func (r *round) pass(req *http.Request) (*http.Response, error) {
	c := cmp.Or(r.accepted.Load(), r.candidates[0])
	s, err := c.login(req.Context(), r.registry)
	if err != nil {
		return nil, err
	}
	resp, err := s.RoundTrip(req)
	if err != nil {
		return nil, login.NewTry(c.cred, err, r.registry.Secrets).Err
	}
	return resp, nil
}

// send tries the candidates in turn. The first request does so alone, and the
// others wait for what it finds: a wrong password is sent once, however many ask.
func (r *round) send(req *http.Request, out *outcome) {
	done, err := r.await(req.Context())
	if err != nil {
		out.err = err
		return
	}
	defer done()
	r.tryAll(req, out)
	if out.err == nil {
		r.scouted.Store(true)
	}
}

// await lets the first request through, and the others once that is answered.
func (r *round) await(ctx context.Context) (done func(), err error) {
	if r.scouted.Load() {
		return func() {}, nil
	}
	select {
	case r.scout <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.scouted.Load() {
		<-r.scout
		return func() {}, nil
	}
	return func() { <-r.scout }, nil
}

// tryAll tries the one that was accepted, and then the others.
func (r *round) tryAll(req *http.Request, out *outcome) {
	first := r.accepted.Load()
	for _, c := range r.order(first) {
		var err error
		if out.resp, err = c.send(req, out, r.registry, c == first); err == nil {
			if isRead(req) && out.resp.StatusCode < http.StatusBadRequest {
				r.accepted.Store(c)
			}
			return
		}
		if !out.add(err) || !out.canRepeat(req) {
			return
		}
	}
}

// order is that of the lookup, but for the one that was accepted.
func (r *round) order(first *candidate) []*candidate {
	if first == nil {
		return r.candidates
	}
	others := slices.DeleteFunc(slices.Clone(r.candidates), func(c *candidate) bool { return c == first })
	return slices.Insert(others, 0, first)
}
