// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/login"
)

// renewEvery is how often, at most, the Keyring is asked for other credentials
// because a registry refused those that it had: as often as Invalidate heeds it.
const renewEvery = time.Minute

// Transport is an [http.RoundTripper] for one repository, or for a registry as
// such. The first request looks the credentials up. Each is tried in the
// kubelet's order until one is accepted, which then serves the requests that
// follow; one that is accepted for writing serves writes. Without any there is one
// anonymous login, and none where there are some.
//
// The next credential is tried after 401, 403, 429 and 5xx, and after 404 unless the
// one at hand has been accepted before, since many registries hide so what may not be seen.
// Requests other than GET and HEAD go on after 401 and 403 alone, if their body can
// be sent again. A network that fails is not tried with another credential.
// If every credential was refused and the Keyring has others by then, each of
// those is tried, once a minute at most. One that got 401 to a read is told to
// [regcred.Keyring.Invalidate]; if it was the password that was refused, and not a
// token, it is not shown again for a minute, so that a registry that counts wrong
// passwords does not lock a user out.
//
// If all fail the answer has the status that says most (401, 403, 404, 429, 5xx: the
// last of these), and in its body the registry's codes, with a message for each
// credential. No answer of status 400 and above holds a secret.
//
// GET and HEAD are repeated on 429 and 5xx and when the connection breaks, four
// times at most and within 30 seconds for each credential; on 429 not while there are
// others to try. A credential goes to the registry and to the token server that it
// names, over TLS unless [Options].Insecure, and never along with a redirect.
type Transport struct {
	keyring *regcred.Keyring
	opts    Options
	req     regcred.Request
	target  login.Target
	repo    string // "team/app"; "" for a registry

	round atomic.Pointer[round] // nil before the first lookup
}

var _ http.RoundTripper = (*Transport)(nil)

// Transport returns one for the [name.Repository] of an image, or for a
// [name.Registry], whose catalog it may list.
func (k *Keychain) Transport(resource authn.Resource) (*Transport, error) {
	req, err := k.question(resource)
	if err != nil {
		return nil, err
	}
	t := &Transport{keyring: k.keyring, opts: k.opts, req: req}
	registry, err := name.NewRegistry(resource.RegistryStr())
	if err != nil {
		return nil, fmt.Errorf("keychain: %w", err)
	}
	scope := registry.Scope(transport.PullScope)
	if req.Registry == "" {
		_, t.repo, _ = strings.Cut(req.Image, "/")
		scope = registry.Repo(t.repo).Scope(transport.PullScope)
	}
	if t.target, err = login.NewTarget(registry, scope, k.opts.Insecure); err != nil {
		return nil, fmt.Errorf("keychain: %w", err)
	}
	return t, nil
}

// Wrapper returns t in the one form that go-containerregistry's remote does not
// wrap a login of its own around, nor retries:
//
//	remote.Image(ref, remote.WithTransport(t.Wrapper()))
func (t *Transport) Wrapper() *transport.Wrapper {
	// With a challenge that is not for a token nothing is asked of anybody, and
	// what is sent anonymously is sent as it is: it cannot fail.
	rt, _ := transport.FromToken(t.target.Registry, authn.Anonymous, t, &transport.Challenge{}, nil)
	return rt.(*transport.Wrapper)
}

// Credential returns the one that the registry has accepted: nil before the first
// request that succeeded, and if none was needed. A program that shares what it
// pulled has to know whose it was (KEP-2535).
func (t *Transport) Credential() *regcred.Credential {
	if r := t.round.Load(); r != nil {
		return r.credential()
	}
	return nil
}

// CloseIdleConnections closes those of [Options].Transport.
func (t *Transport) CloseIdleConnections() {
	(&http.Client{Transport: t.opts.Transport}).CloseIdleConnections()
}

// RoundTrip is that of [http.RoundTripper]. A request for another repository of
// the registry is an error: its credentials may be others.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.roundTrip(req)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, fmt.Errorf("keychain: %w", err)
	}
	resp.Request = req // and not the one that was sent, which has the password in it
	return resp, nil
}

func (t *Transport) roundTrip(req *http.Request) (*http.Response, error) {
	own := t.target.Owns(req)
	if own {
		if req.URL.Opaque != "" {
			return nil, fmt.Errorf("a repository URL must not have an opaque part: %q", login.Bound(req.URL.Opaque, 200))
		}
		if err := checkPath(req.URL, t.repo); err != nil {
			return nil, err
		}
	}
	r, err := t.lookUp(req.Context())
	if err != nil {
		return nil, err
	}
	if !own {
		return r.pass(req)
	}
	out := &outcome{}
	defer out.closeUnsent(req)
	r.send(req, out)
	if out.renewable(req) {
		switch next, err := t.renew(req.Context(), r); {
		case err != nil:
			out.add(&refusedError{refusal: refusal{Try: login.Try{Err: fmt.Errorf("look up other credentials: %w", err)}}})
		case next != r:
			out.refusals = nil
			next.send(req, out)
		}
	}
	return out.answer(req)
}

// lookUp returns the credentials that are there. The Keyring lets one answer
// serve all who ask at a time.
func (t *Transport) lookUp(ctx context.Context) (*round, error) {
	if r := t.round.Load(); r != nil {
		return r, nil
	}
	res, err := t.keyring.Lookup(ctx, t.req)
	if err != nil {
		return nil, err
	}
	t.round.CompareAndSwap(nil, t.newRound(res, nil))
	return t.round.Load(), nil
}

func (t *Transport) newRound(res *regcred.Result, before *round) *round {
	registry := &login.Registry{Target: t.target, Secrets: &login.Secrets{}, Transport: t.opts.Transport}
	return newRound(t.keyring, registry, res.Credentials, before)
}

// renew returns other credentials than those that were refused, or the same
// if there are no others.
func (t *Transport) renew(ctx context.Context, refused *round) (*round, error) {
	for {
		last := refused.renewed.Load() // before the round, which was stored before it
		if r := t.round.Load(); r != refused {
			return r, nil
		}
		if last != nil && time.Since(*last) < renewEvery {
			return refused, nil
		}
		if _, err := refused.renewing.do(ctx, func() error { return t.ask(ctx, refused) }); err != nil {
			return nil, err
		}
	}
}

// ask asks the Keyring once more.
func (t *Transport) ask(ctx context.Context, refused *round) error {
	res, err := t.keyring.Lookup(ctx, t.req)
	if ctx.Err() != nil {
		return context.Cause(ctx) // another asks
	}
	now := time.Now()
	defer refused.renewed.Store(&now) // after the round: who sees it looks for that
	if err != nil || refused.has(res.Credentials) {
		return err
	}
	next := t.newRound(res, refused)
	next.renewed.Store(&now)
	t.round.Store(next)
	return nil
}
