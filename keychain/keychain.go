// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package keychain lets programs that are built on go-containerregistry pull as a
// kubelet does, with the credentials of a [regcred.Keyring].
//
//	keys := keychain.New(keyring, keychain.Options{})
//	ref, err := name.ParseReference("registry.example/team/app:v1")
//	…
//	tr, err := keys.Transport(ref.Context())
//	…
//	img, err := remote.Image(ref, remote.WithTransport(tr.Wrapper()))
//
// A [Transport] tries every credential in the kubelet's order, tells the Keyring
// which were refused, and asks it again for what ends during a long copy. A
// [Keychain] is for programs that take an [authn.Keychain] and nothing else: it
// hands out the first credential alone, as the interface allows no more.
//
// Neither takes a failure for "no credentials needed". Where a provider fails and
// nothing else is found the error is a [*regcred.LookupError], and nothing is
// asked of the registry.
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

// Options say for whom is asked and how. The zero value asks for the node.
type Options struct {
	// For is for whom an image is pulled: its Pod, PullSecrets, Token and
	// Annotations. Image and Registry stay empty: what is asked about comes
	// with each question.
	For regcred.Request

	// Transport makes a [Transport]'s requests; nil means [http.DefaultTransport].
	Transport http.RoundTripper

	// Insecure allows a [Transport] plain HTTP to its registry, and to that
	// host alone. Registries on loopback need no permission.
	Insecure bool
}

// Keychain is an [authn.Keychain] and an [authn.ContextKeychain]. It is safe for
// concurrent use, and costs nothing to make: a program that pulls for many pods
// makes one for each of them, of one Keyring.
type Keychain struct {
	keyring *regcred.Keyring
	opts    Options
}

var (
	_ authn.Keychain        = (*Keychain)(nil)
	_ authn.ContextKeychain = (*Keychain)(nil)
)

// New returns a Keychain of a Keyring, which stays its caller's to close.
func New(k *regcred.Keyring, opts Options) *Keychain { return &Keychain{k, opts} }

// Resolve is [Keychain.ResolveContext] without a context: the Keyring's own bounds
// hold, one minute for a plugin unless it says otherwise.
func (k *Keychain) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), resource)
}

// ResolveContext returns the first credential for a repository, or a registry if
// that is all that is known: providers whose pattern has a path are not asked
// then. Without any it is [authn.Anonymous], so that a keychain behind this one
// (authn.NewMultiKeychain) has its turn. If a provider failed and there is no
// credential the error is a [*regcred.LookupError].
//
// What is returned asks the Keyring again once the answer's time in the cache is
// over, or after a minute if it was not cached. A credential that a registry
// refuses is not noticed here, and the next one not tried: that takes a [Transport].
func (k *Keychain) ResolveContext(ctx context.Context, resource authn.Resource) (authn.Authenticator, error) {
	req, err := k.question(resource)
	if err != nil {
		return nil, err
	}
	a := &authenticator{keyring: k.keyring, req: req}
	cred, err := a.ask(ctx)
	if err != nil {
		return nil, err
	}
	if cred == nil {
		return authn.Anonymous, nil
	}
	return a, nil
}

// question is the lookup for a resource. A registry and a repository are different
// questions, and both have to be about one host: of "registry/app", which in
// go-containerregistry may be of a host without a dot, a kubelet makes
// docker.io/registry/app.
func (k *Keychain) question(resource authn.Resource) (req regcred.Request, err error) {
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

// uncachedUse is for how long an answer is used that a Keyring does not keep.
const uncachedUse = time.Minute

// authenticator is the first credential for one question.
type authenticator struct {
	keyring *regcred.Keyring
	req     regcred.Request

	mu    sync.Mutex
	cred  *regcred.Credential // nil: there is none now
	until time.Time
}

// ask asks the Keyring, which lets one answer serve all who ask at a time.
func (a *authenticator) ask(ctx context.Context) (*regcred.Credential, error) {
	res, err := a.keyring.Lookup(ctx, a.req)
	if err != nil {
		return nil, fmt.Errorf("keychain: %w", err)
	}
	var cred *regcred.Credential
	until := time.Now().Add(uncachedUse)
	if len(res.Credentials) > 0 {
		cred = &res.Credentials[0]
		if !cred.CachedUntil.IsZero() {
			until = cred.CachedUntil
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cred, a.until = cred, until
	return cred, nil
}

// Authorization is that of [authn.Authenticator].
func (a *authenticator) Authorization() (*authn.AuthConfig, error) {
	return a.AuthorizationContext(context.Background())
}

// AuthorizationContext is that of [authn.ContextAuthenticator].
func (a *authenticator) AuthorizationContext(ctx context.Context) (*authn.AuthConfig, error) {
	a.mu.Lock()
	cred, until := a.cred, a.until
	a.mu.Unlock()
	if !time.Now().Before(until) {
		var err error
		if cred, err = a.ask(ctx); err != nil {
			return nil, err
		}
	}
	return authConfig(cred), nil
}

// authConfig has the pair also as Auth, which go-containerregistry sends where a
// user name or a password is empty: it would send nothing at all.
func authConfig(cred *regcred.Credential) *authn.AuthConfig {
	if cred == nil {
		return &authn.AuthConfig{}
	}
	password := cred.Password.Reveal()
	return &authn.AuthConfig{
		Username: cred.Username, Password: password,
		Auth: base64.StdEncoding.EncodeToString([]byte(cred.Username + ":" + password)),
	}
}
