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

// credentialSet holds the credentials from one lookup, and which of them the registry has
// accepted.
type credentialSet struct {
	candidates []*candidate
	registry   *login.Registry

	readCandidate, writeCandidate atomic.Pointer[candidate] // accepted candidates for reads and for writes
	probed                        atomic.Bool               // every candidate was tried, or one was accepted
	probe                         sharedCall                // the first request, for which the others wait

	hides     atomic.Bool // the registry returned 401 for a path although the password is right
	protected atomic.Bool // /v2/ returns 401 without a credential

	renewing  sharedCall
	renewedAt atomic.Pointer[time.Time] // time of the last lookup after a refusal; nil means never
}

// newCredentialSet creates a set from creds. A credential that is also in before, which may
// be nil, keeps its last 401.
func newCredentialSet(k *regcred.Keyring, registry *login.Registry, creds []regcred.Credential, before *credentialSet) *credentialSet {
	r := &credentialSet{registry: registry}
	for i := range creds {
		c := newCandidate(k, &creds[i])
		if old := before.findCandidate(&creds[i]); old != nil {
			c.copyRefusal(old)
		}
		r.candidates = append(r.candidates, c)
	}
	if len(creds) == 0 {
		r.candidates = append(r.candidates, newCandidate(k, nil)) // anonymous
	}
	return r
}

// findCandidate returns the candidate with the same user name and password as cred, or nil. r
// may be nil.
func (r *credentialSet) findCandidate(cred *regcred.Credential) *candidate {
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

// updateIfSame reports whether creds contain the same user names and passwords as r. If so,
// it replaces the credentials in r, because Invalidate applies only to the newest cache
// entry.
func (r *credentialSet) updateIfSame(creds []regcred.Credential) bool {
	if len(creds) == 0 {
		return r.candidates[0].cred.Load() == nil
	}
	if len(creds) != len(r.candidates) {
		return false
	}
	for i := range creds {
		if r.findCandidate(&creds[i]) == nil {
			return false
		}
	}
	for i := range creds {
		r.findCandidate(&creds[i]).cred.Store(&creds[i])
	}
	return true
}

// firstCandidate returns the candidate that a request tries first, or nil.
func (r *credentialSet) firstCandidate(read bool) *candidate {
	if read {
		return cmp.Or(r.readCandidate.Load(), r.writeCandidate.Load())
	}
	return cmp.Or(r.writeCandidate.Load(), r.readCandidate.Load())
}

func (r *credentialSet) markAccepted(c *candidate, read bool) {
	if read {
		r.readCandidate.Store(c)
	} else {
		r.writeCandidate.Store(c)
	}
}

func (r *credentialSet) acceptedCredential() *regcred.Credential {
	if c := r.firstCandidate(true); c != nil {
		return c.cred.Load()
	}
	return nil
}

// sendWithoutCredential sends a request that was redirected to another host. It does not send a
// credential.
func (r *credentialSet) sendWithoutCredential(req *http.Request) (*http.Response, error) {
	var rt http.RoundTripper = r.registry
	if c := r.firstCandidate(isReadRequest(req)); c != nil {
		if s, _ := c.cachedSession(isReadRequest(req)); s != nil {
			rt = s
		}
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return nil, login.NewFailedAttempt(nil, err, r.registry.Secrets).Err
	}
	return resp, nil
}

// send tries the candidates in order. The first request runs alone while other requests
// wait, so that a wrong password is sent only once.
func (r *credentialSet) send(req *http.Request, out *outcome) {
	for !r.probed.Load() {
		ran, err := r.probe.doOnce(req.Context(), func() error { return r.probeWith(req, out) })
		if !ran && err != nil {
			out.err = err
		}
		if ran || err != nil {
			return
		}
	}
	r.tryAll(req, out)
}

// probeWith sends the first request and returns the error for the waiting requests.
func (r *credentialSet) probeWith(req *http.Request, out *outcome) error {
	r.tryAll(req, out)
	if out.err == nil {
		r.probed.Store(true)
	}
	if isReadRequest(req) {
		return out.err
	}
	return nil // the request's body may have caused the error
}

// tryAll tries the accepted candidate first, then the others. After a 429, it retries a
// candidate only if no other candidate is left.
func (r *credentialSet) tryAll(req *http.Request, out *outcome) {
	first := r.firstCandidate(isReadRequest(req))
	order := r.orderedCandidates(first)
	if !isReadRequest(req) {
		order = refusedReadsLast(order)
	}
	noWait := req
	if len(order) > 1 {
		noWait = req.WithContext(login.WithoutRateLimitWait(req.Context()))
	}
	for _, c := range order {
		if !r.tryCandidate(c, noWait, out, c == first) {
			return
		}
	}
	if c := out.removeRateLimited(order); noWait != req && c != nil {
		r.tryCandidate(c, req, out, c == first)
	}
}

// tryCandidate sends the request with one candidate. It reports whether to try another one.
func (r *credentialSet) tryCandidate(c *candidate, req *http.Request, out *outcome, accepted bool) bool {
	var err error
	if out.resp, err = c.send(req, out, r, accepted); err != nil {
		return out.recordError(err) && out.canRepeat(req)
	}
	r.markAccepted(c, isReadRequest(req))
	return false
}

// orderedCandidates returns the candidates in lookup order, with first moved to the front.
func (r *credentialSet) orderedCandidates(first *candidate) []*candidate {
	if first == nil {
		return r.candidates
	}
	others := slices.DeleteFunc(slices.Clone(r.candidates), func(c *candidate) bool { return c == first })
	return slices.Insert(others, 0, first)
}

// refusedReadsLast moves the candidates with rejected reads to the end, because their
// password is probably wrong.
func refusedReadsLast(order []*candidate) []*candidate {
	var good, refused []*candidate
	for _, c := range order {
		if c.refusedReads() {
			refused = append(refused, c)
		} else {
			good = append(good, c)
		}
	}
	return append(good, refused...)
}
