// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package keychain lets programs based on go-containerregistry pull as a kubelet
// does, with the credentials of a [regcred.Keyring].
//
//	ref, err := name.ParseReference(host + "/team/app:v1")
//	if err != nil {
//		log.Fatal(err)
//	}
//	tr, err := keychain.New(keyring, keychain.Options{}).Transport(ref.Context())
//	if err != nil {
//		log.Fatal(err)
//	}
//	img, err := remote.Image(ref, remote.WithTransport(tr.Wrapper()))
//
// A [Transport] tries every credential in the kubelet's order, reports rejected
// credentials to the Keyring, and looks up new ones if they expire during a long
// copy. A [Keychain] is for programs that accept only an [authn.Keychain]: it
// returns only the first credential, because the interface allows no more, and
// go-containerregistry logs in with its own rules.
//
// Neither treats a failure as "no credentials needed". If a provider fails and
// there is no other credential, the error is a [*regcred.LookupError], and no
// request is sent to the registry.
package keychain

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/match"
)

// Options configures a [Keychain]. The zero value looks up credentials for the node.
type Options struct {
	// For provides the Pod, PullSecrets, Token and Annotations for each lookup. Image
	// and Registry must be empty, because they depend on the resource.
	For regcred.Request

	// Transport sends the requests of a [Transport]; nil means a copy of
	// [http.DefaultTransport] whose errors do not contain messages of a proxy.
	Transport http.RoundTripper

	// Insecure allows a [Transport] to use plain HTTP for its registry only. It is
	// always allowed for loopback registries.
	Insecure bool

	// ResponseTimeout ends a request of a [Transport] if the server neither accepts a byte of it
	// nor responds for this long; 0 means five minutes. Waiting for a free connection does
	// not count, nor does waiting for the caller's request body.
	ResponseTimeout time.Duration

	// IdleTimeout ends a response of a [Transport] if no byte arrives for this long; 0 means 30
	// seconds. A response also ends if fewer than 32 KiB arrive during a minute of waiting. It
	// also replaces ResponseTimeout for the login (/v2/ and the token server).
	IdleTimeout time.Duration
}

// Keychain implements [authn.Keychain] and [authn.ContextKeychain]. It is safe for
// concurrent use. It is cheap to create: use one per pod, all with the same Keyring.
type Keychain struct {
	keyring *regcred.Keyring
	opts    Options
}

var (
	_ authn.Keychain        = (*Keychain)(nil)
	_ authn.ContextKeychain = (*Keychain)(nil)
)

// New returns a Keychain that uses k. The caller must close k.
func New(k *regcred.Keyring, opts Options) *Keychain { return &Keychain{k, opts} }

// Resolve calls [Keychain.ResolveContext] without a deadline. The Keyring's timeouts
// still apply.
func (k *Keychain) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), resource)
}

// ResolveContext returns the first credential for a repository or registry. For a registry,
// it skips providers whose patterns have a path. If there is no credential, it returns
// [authn.Anonymous], so that [authn.NewMultiKeychain] uses the next keychain. If no
// credential was found because a provider failed, it returns a [*regcred.LookupError].
//
// The Authenticator looks up the credential again when its cache entry expires, or after a
// minute if it was not cached. It does not detect that a registry rejected a credential.
// Use a [Transport] for that.
func (k *Keychain) ResolveContext(ctx context.Context, resource authn.Resource) (authn.Authenticator, error) {
	req, err := k.newLookupRequest(resource)
	if err != nil {
		return nil, err
	}
	a := &authenticator{keyring: k.keyring, req: req}
	cred, err := a.lookUp(ctx)
	if err != nil {
		return nil, err
	}
	if cred == nil {
		return authn.Anonymous, nil
	}
	return a, nil
}

// newLookupRequest returns the lookup request for a resource. It rejects a repository if
// the kubelet would use a different registry for it. For example, go-containerregistry
// accepts a registry without a dot, but the kubelet interprets "registry/app" as
// docker.io/registry/app.
func (k *Keychain) newLookupRequest(resource authn.Resource) (req regcred.Request, err error) {
	req = k.opts.For
	if req.Image != "" || req.Registry != "" {
		return req, fmt.Errorf("keychain: Options.For must not set the image or registry (%q)", req.Image+req.Registry)
	}
	if resource == nil {
		return req, errors.New("keychain: the resource is nil")
	}
	registry := resource.RegistryStr()
	if resource.String() == registry {
		if req.Registry, err = match.Registry(registry); err != nil {
			return req, fmt.Errorf("keychain: %w", err)
		}
		return req, nil
	}
	repository, err := match.Repository(resource.String())
	if err != nil {
		return req, fmt.Errorf("keychain: %w", err)
	}
	if host, _, _ := strings.Cut(repository, "/"); host != registry && (host != "docker.io" || registry != name.DefaultRegistry) {
		return req, fmt.Errorf("keychain: %q belongs to registry %q here, but a kubelet would use %q: use a registry name with a port or a domain",
			resource.String(), registry, host)
	}
	req.Image = repository
	return req, nil
}

// uncachedTTL is how long a credential is used if the Keyring did not cache it.
const uncachedTTL = time.Minute

// authenticator is an [authn.Authenticator] for the first credential of a lookup.
type authenticator struct {
	keyring *regcred.Keyring
	req     regcred.Request

	mu      sync.Mutex
	cred    *regcred.Credential // nil: anonymous
	expires time.Time
}

func (a *authenticator) lookUp(ctx context.Context) (*regcred.Credential, error) {
	res, err := a.keyring.Lookup(ctx, a.req)
	if err != nil {
		return nil, fmt.Errorf("keychain: %w", err)
	}
	var cred *regcred.Credential
	until := time.Now().Add(uncachedTTL)
	if len(res.Credentials) > 0 {
		cred = &res.Credentials[0]
		if !cred.CachedUntil.IsZero() {
			until = cred.CachedUntil
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cred, a.expires = cred, until
	return cred, nil
}

// Authorization implements [authn.Authenticator].
func (a *authenticator) Authorization() (*authn.AuthConfig, error) {
	return a.AuthorizationContext(context.Background())
}

// AuthorizationContext implements [authn.ContextAuthenticator].
func (a *authenticator) AuthorizationContext(ctx context.Context) (*authn.AuthConfig, error) {
	a.mu.Lock()
	cred, until := a.cred, a.expires
	a.mu.Unlock()
	if !time.Now().Before(until) {
		var err error
		if cred, err = a.lookUp(ctx); err != nil {
			return nil, err
		}
	}
	return newAuthConfig(cred), nil
}

// newAuthConfig converts a credential for go-containerregistry. It also sets Auth, because
// if Password is empty. Like container runtimes, it ignores a credential without a user name.
func newAuthConfig(cred *regcred.Credential) *authn.AuthConfig {
	if cred == nil || cred.Username == "" {
		return &authn.AuthConfig{}
	}
	password := cred.Password.Reveal()
	return &authn.AuthConfig{
		Username: cred.Username, Password: password,
		Auth: base64.StdEncoding.EncodeToString([]byte(cred.Username + ":" + password)),
	}
}
