// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"cmp"
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
	registry   *login.Registry

	reader, writer atomic.Pointer[candidate] // those that were accepted
	scouted        atomic.Bool               // every candidate was tried, or one was accepted
	scout          flight                    // does that

	renewing flight
	renewed  atomic.Pointer[time.Time] // when the Keyring was last asked because of a refusal; nil: never
}

// newRound remembers what is known of the credentials that were there before.
func newRound(k *regcred.Keyring, registry *login.Registry, creds []regcred.Credential, before *round) *round {
	r := &round{registry: registry}
	for i := range creds {
		c := newCandidate(k, &creds[i])
		if old := before.find(&creds[i]); old != nil {
			c.remember(old)
		}
		r.candidates = append(r.candidates, c)
	}
	if len(creds) == 0 {
		r.candidates = append(r.candidates, newCandidate(k, nil)) // anonymous
	}
	return r
}

// find returns the candidate with a credential's user name and password. A nil
// round has none.
func (r *round) find(cred *regcred.Credential) *candidate {
	if r == nil {
		return nil
	}
	for _, c := range r.candidates {
		if have := c.cred.Load(); have != nil && have.Username == cred.Username && have.Password.Equal(cred.Password) {
			return c
		}
	}
	return nil
}

// has reports whether a lookup found nothing else. The Keyring's answers are
// others all the same, by which it is told of refusals.
func (r *round) has(creds []regcred.Credential) bool {
	if len(creds) == 0 {
		return r.candidates[0].cred.Load() == nil
	}
	if len(creds) != len(r.candidates) {
		return false
	}
	for i := range creds {
		if r.find(&creds[i]) == nil {
			return false
		}
	}
	for i := range creds {
		r.find(&creds[i]).cred.Store(&creds[i])
	}
	return true
}

// accepted is the one that a request is sent with first, or nil.
func (r *round) accepted(read bool) *candidate {
	if read {
		return cmp.Or(r.reader.Load(), r.writer.Load())
	}
	return cmp.Or(r.writer.Load(), r.reader.Load())
}

func (r *round) accept(c *candidate, read bool) {
	if read {
		r.reader.Store(c)
	} else {
		r.writer.Store(c)
	}
}

func (r *round) credential() *regcred.Credential {
	if c := r.accepted(true); c != nil {
		return c.cred.Load()
	}
	return nil
}

// pass sends what a registry has redirected elsewhere. No credential goes along,
// and none is tried.
func (r *round) pass(req *http.Request) (*http.Response, error) {
	var rt http.RoundTripper = r.registry
	if c := r.accepted(isRead(req)); c != nil {
		if s, _ := c.known(); s != nil {
			rt = s
		}
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return nil, login.NewTry(nil, err, r.registry.Secrets).Err
	}
	return resp, nil
}

// send tries the candidates in turn. The first request does so alone, and the
// others wait for what it finds: a wrong password is sent once, however many ask.
func (r *round) send(req *http.Request, out *outcome) {
	for !r.scouted.Load() {
		ran, err := r.scout.do(req.Context(), func() error { return r.scoutWith(req, out) })
		if !ran && err != nil {
			out.err = err
		}
		if ran || err != nil {
			return
		}
	}
	r.tryAll(req, out)
}

// scoutWith returns what those should know who wait.
func (r *round) scoutWith(req *http.Request, out *outcome) error {
	r.tryAll(req, out)
	if out.err == nil {
		r.scouted.Store(true)
	}
	if isRead(req) {
		return out.err
	}
	return nil // it may have been its body
}

// tryAll tries the one that was accepted, and then the others. While there
// are others nobody waits for one that is told to come back later.
func (r *round) tryAll(req *http.Request, out *outcome) {
	first := r.accepted(isRead(req))
	order := r.order(first)
	hurried := req
	if len(order) > 1 {
		hurried = req.WithContext(login.Hurried(req.Context()))
	}
	for _, c := range order {
		if !r.try(c, hurried, out, c == first) {
			return
		}
	}
	if c := out.limited(order); hurried != req && c != nil {
		r.try(c, req, out, c == first)
	}
}

// try reports whether another candidate is to be tried.
func (r *round) try(c *candidate, req *http.Request, out *outcome, accepted bool) bool {
	var err error
	if out.resp, err = c.send(req, out, r.registry, accepted); err != nil {
		return out.add(err) && out.canRepeat(req)
	}
	r.accept(c, isRead(req))
	return false
}

// order is that of the lookup, but for the one that was accepted.
func (r *round) order(first *candidate) []*candidate {
	if first == nil {
		return r.candidates
	}
	others := slices.DeleteFunc(slices.Clone(r.candidates), func(c *candidate) bool { return c == first })
	return slices.Insert(others, 0, first)
}
