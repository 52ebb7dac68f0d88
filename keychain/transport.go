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

// minRenewInterval is the minimum time between lookups after a refusal. Invalidate uses
// the same interval.
const minRenewInterval = time.Minute

// Transport is an [http.RoundTripper] for one repository or for a registry. The first
// request looks up the credentials and tries them in the kubelet's order until the
// registry accepts one. Later requests use the accepted credential. Reads and writes
// may use different credentials. If the lookup returned no credential, or one without a
// user name, requests are anonymous.
//
// Login: unlike go-containerregistry, the Transport prefers Bearer to Basic, uses token
// servers at private addresses, and logs in although /v2/ does not respond with 200 or
// 401. It then sends the first request without a credential to get the challenge.
//
// Next credential: the Transport tries the next credential after 401, 403, 429 and 5xx.
// It also does so after 404 if the current credential was not accepted before, because
// many registries hide repositories that way. For methods other than GET and HEAD, it
// does so only after 401 and 403, and only if the body can be sent again. It never does
// so after a network error.
//
// Rejected credentials: after a 401, the Transport calls [regcred.Keyring.Invalidate]. To
// avoid account lockouts, it does not send a rejected password again for a minute. Some
// registries also return 401 for missing content. The Transport therefore first sends one
// request for /v2/ if the registry accepted the credential before, or for a write. If
// the registry accepts that request, the 401 applies only to its path. If all credentials
// are rejected, the Transport repeats the lookup at most once a minute and tries new
// credentials.
//
// Failures: if all credentials fail, the response has the most significant status (401,
// 403, 404, 429, 5xx, in ascending order) and a message for each credential. Responses
// with status 400 and above contain no secrets.
//
// Retries: GET and HEAD requests are retried on 429, 5xx and broken connections, at
// most four times and within 30 seconds per credential. On 429 they are retried only if
// no other credential is left. A credential is sent only to the registry and its token
// server, over TLS unless [Options].Insecure is set, and never after a redirect to
// another host.
type Transport struct {
	keyring *regcred.Keyring
	opts    Options
	req     regcred.Request
	target  login.Target
	repo    string // "team/app"; "" for a registry

	current atomic.Pointer[credentialSet] // nil before the first lookup
}

var _ http.RoundTripper = (*Transport)(nil)

// Transport returns a Transport for a [name.Repository] or a [name.Registry]. With a
// registry, it can list the catalog.
func (k *Keychain) Transport(resource authn.Resource) (*Transport, error) {
	req, err := k.newLookupRequest(resource)
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

// Wrapper returns t as a [transport.Wrapper]. go-containerregistry adds no login and no
// retries to transports of this type:
//
//	remote.Image(ref, remote.WithTransport(t.Wrapper()))
func (t *Transport) Wrapper() *transport.Wrapper {
	// Without a Bearer challenge FromToken sends no request, so it cannot fail.
	rt, _ := transport.FromToken(t.target.Registry, authn.Anonymous, t, &transport.Challenge{}, nil)
	return rt.(*transport.Wrapper)
}

// Credential returns the credential that the registry accepted. It returns nil before
// the first successful request and if no credential was needed. Programs that share
// pulled images need this credential (KEP-2535).
func (t *Transport) Credential() *regcred.Credential {
	if r := t.current.Load(); r != nil {
		return r.acceptedCredential()
	}
	return nil
}

// CloseIdleConnections closes the idle connections of [Options].Transport.
func (t *Transport) CloseIdleConnections() {
	(&http.Client{Transport: t.opts.Transport}).CloseIdleConnections()
}

// RoundTrip implements [http.RoundTripper]. It returns an error for a request to
// another repository of the registry.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.roundTrip(req)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, fmt.Errorf("keychain: %w", err)
	}
	resp.Request = req // the request that was sent has the password
	return resp, nil
}

func (t *Transport) roundTrip(req *http.Request) (*http.Response, error) {
	own := t.target.IsToRegistry(req)
	if own {
		if req.URL.Opaque != "" {
			return nil, fmt.Errorf("a repository URL must not have an opaque part: %q", login.Truncate(req.URL.Opaque, 200))
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
		return r.sendWithoutCredential(req)
	}
	out := &outcome{}
	defer out.closeUnsent(req)
	r.send(req, out)
	if out.canRenew(req) {
		switch next, err := t.renewCredentials(req.Context(), r); {
		case err != nil:
			out.recordError(&refusedError{refusal: refusal{FailedAttempt: login.FailedAttempt{Err: fmt.Errorf("look up other credentials: %w", err)}}})
		case next != r:
			out.refusals = nil
			next.send(req, out)
		}
	}
	return out.finalResponse(req)
}

// lookUp returns the current credentials. The first call performs the lookup.
func (t *Transport) lookUp(ctx context.Context) (*credentialSet, error) {
	if r := t.current.Load(); r != nil {
		return r, nil
	}
	res, err := t.keyring.Lookup(ctx, t.req)
	if err != nil {
		return nil, err
	}
	t.current.CompareAndSwap(nil, t.newCredentialSet(res, nil))
	return t.current.Load(), nil
}

func (t *Transport) newCredentialSet(res *regcred.Result, before *credentialSet) *credentialSet {
	registry := &login.Registry{
		Target: t.target, Runtime: login.GoContainerregistry, Secrets: &login.Secrets{}, Transport: t.opts.Transport,
		ResponseTimeout: t.opts.ResponseTimeout, IdleTimeout: t.opts.IdleTimeout,
	}
	return newCredentialSet(t.keyring, registry, res.Credentials, before)
}

// renewCredentials looks up the credentials again unless a recent lookup did so. It returns the new
// credentials, or refused if they have not changed.
func (t *Transport) renewCredentials(ctx context.Context, refused *credentialSet) (*credentialSet, error) {
	for {
		last := refused.renewedAt.Load() // load before t.current; lookUpAgain stores them in the opposite order
		if r := t.current.Load(); r != refused {
			return r, nil
		}
		if last != nil && time.Since(*last) < minRenewInterval {
			return refused, nil
		}
		if _, err := refused.renewing.doOnce(ctx, func() error { return t.lookUpAgain(ctx, refused) }); err != nil {
			return nil, err
		}
	}
}

// lookUpAgain repeats the lookup and stores the result if the credentials have changed.
func (t *Transport) lookUpAgain(ctx context.Context, refused *credentialSet) error {
	res, err := t.keyring.Lookup(ctx, t.req)
	if ctx.Err() != nil {
		return context.Cause(ctx) // one of the waiting requests repeats the lookup
	}
	now := time.Now()
	defer refused.renewedAt.Store(&now) // store after t.current; renew loads them in the opposite order
	if err != nil || refused.updateIfSame(res.Credentials) {
		return err
	}
	next := t.newCredentialSet(res, refused)
	next.renewedAt.Store(&now)
	t.current.Store(next)
	return nil
}
