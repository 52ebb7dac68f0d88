// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package token answers with what the pod's service-account token is worth at
// a registry (KEP-4412): the token itself as the password, or what an endpoint
// gives for it. Which endpoint, and how it is asked, is configuration.
//
//	provider, err := token.New(token.Options{
//		Registries: []string{"registry.example.com"},
//		Username:   "jwt",
//	})
//
// A token goes to one place only: the runtime that pulls, or the endpoint that
// is configured. Nothing of a request chooses where that is.
package token

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// DefaultUsername is the user name that goes with a token that is passed
// through. The registries that take such tokens do not look at it.
const DefaultUsername = "serviceaccount"

// Options configure a [Provider].
type Options struct {
	// Registries are the registries that may be given credentials, as patterns
	// in the syntax of matchImages. At least one is required.
	Registries []string

	// Username is a template. "" means [DefaultUsername] for a token that is
	// passed through, and otherwise that the answer has the user name.
	Username string

	// Audience, if it is not "", is what the token must have been issued for.
	Audience string

	// Optional makes the answer empty where there is no token, instead of an
	// error.
	Optional bool

	// CacheDuration, if not nil, is how long an answer may be reused at most,
	// and how long one is whose expiry nothing tells: that is not reused
	// otherwise.
	CacheDuration *time.Duration

	// Exchange says how a token is exchanged; nil means that it is passed
	// through.
	Exchange *Exchange

	Log *slog.Logger     // nil discards
	Now func() time.Time // nil means [time.Now]
}

// Provider is a [plugin.Provider]. It is safe for concurrent use.
type Provider struct {
	registries    []match.Pattern
	username      *template // nil if the exchange gives it
	audience      string
	optional      bool
	cacheDuration *time.Duration
	cacheKeyType  plugin.CacheKeyType
	exchange      *exchange
	client        remote.Client
	log           *slog.Logger
	now           func() time.Time
}

// New checks the options, without asking anybody. Files that they name are
// read when they are needed.
func New(opts Options) (*Provider, error) {
	p := &Provider{
		audience: opts.Audience, optional: opts.Optional, cacheDuration: opts.CacheDuration,
		cacheKeyType: plugin.CacheRegistry, client: remote.Client{UserAgent: "token-credential-provider"},
		log: opts.Log, now: opts.Now,
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.now == nil {
		p.now = time.Now
	}
	if d := opts.CacheDuration; d != nil && *d < 0 {
		return nil, fmt.Errorf("cacheDuration %v: it must not be negative", *d)
	}
	for _, step := range []func(Options) error{p.setRegistries, p.setUsername, p.setExchange} {
		if err := step(opts); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Provider) setRegistries(opts Options) error {
	if len(opts.Registries) == 0 {
		return errors.New("no registries: name those that may be given credentials, with --registry or under registries, such as registry.example.com")
	}
	for _, s := range opts.Registries {
		pattern, err := match.Parse(s)
		switch {
		case err != nil:
			return fmt.Errorf("registry %q: %w", s, err)
		case s == "" || strings.Contains(s, "://"):
			return fmt.Errorf("registry %q: it must be a host such as registry.example.com, with its port if it has one and without a scheme", s)
		case strings.Contains(s, "/"):
			// What is right for a part of a registry is not for all of it.
			p.cacheKeyType = plugin.CacheImage
		}
		p.registries = append(p.registries, pattern)
	}
	return nil
}

func (p *Provider) setUsername(opts Options) error {
	text := opts.Username
	switch given := opts.Exchange != nil && opts.Exchange.Response.Username != ""; {
	case given && text != "":
		return errors.New("username and exchange.response.username: there can be one only")
	case given:
		return nil
	case text == "" && opts.Exchange != nil:
		return errors.New("no user name: set username, or exchange.response.username if the answer has it")
	case text == "":
		text = DefaultUsername
	}
	t, err := parseTemplate(text, false)
	if err != nil {
		return fmt.Errorf("username %q: %w", text, err)
	}
	p.username = &t
	p.narrow(t)
	return nil
}

func (p *Provider) setExchange(opts Options) (err error) {
	if opts.Exchange == nil {
		return nil
	}
	if p.exchange, err = opts.Exchange.compile(); err != nil {
		return err
	}
	p.narrow(p.exchange.templates()...)
	return nil
}

// narrow makes answers hold for one image if they depend on it.
func (p *Provider) narrow(templates ...template) {
	for _, t := range templates {
		if t.uses("image") || t.uses("repository") {
			p.cacheKeyType = plugin.CacheImage
		}
	}
}

// GetCredentials answers with a credential for the registry of the image, or
// with none if the registry is not configured.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	registry, repository := split(req)
	if registry == "" || !p.serves(registry+"/"+repository) {
		p.log.Warn("no credentials: the registry is not among those that are configured", "registry", registry)
		return none(), nil
	}
	if req.ServiceAccountToken.IsZero() {
		if p.optional {
			p.log.Info("no credentials: the request has no service-account token", "registry", registry)
			return none(), nil
		}
		return nil, fmt.Errorf("%s: %w", registry, missingToken(req.APIVersion))
	}
	id, err := p.identify(req.ServiceAccountToken.Reveal())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", registry, err)
	}
	v := values{req: req, registry: registry, repository: repository, claims: id}
	cred, err := p.credential(ctx, v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", registry, err)
	}
	return &plugin.Response{
		CacheKeyType:  p.cacheKeyType,
		CacheDuration: p.lifetime(cred.expires),
		Auth:          map[string]plugin.AuthConfig{registry: {Username: cred.username, Password: plugin.NewSecret(cred.secret)}},
	}, nil
}

// credential is what an answer is made of.
type credential struct {
	username string
	secret   string
	expires  time.Time // zero if unknown
}

func (p *Provider) credential(ctx context.Context, v values) (credential, error) {
	cred := credential{secret: v.req.ServiceAccountToken.Reveal(), expires: v.claims.Expires}
	if p.username != nil {
		username, err := p.username.expand(v, asIs)
		if err == nil {
			err = checkUsername(username)
		}
		if err != nil {
			return cred, fmt.Errorf("username: %w", err)
		}
		cred.username = username
	}
	if p.exchange == nil {
		return cred, nil
	}
	exchanged, err := p.trade(ctx, v)
	exchanged.username = cmp.Or(exchanged.username, cred.username)
	return exchanged, err
}

// checkUsername refuses what HTTP Basic authentication cannot carry (RFC 7617,
// section 2): what follows a colon would be taken for the password.
func checkUsername(name string) error {
	switch {
	case name == "":
		return errors.New("the user name is empty")
	case strings.ContainsFunc(name, isControl):
		return errors.New("the user name has a control character in it")
	case strings.Contains(name, ":"):
		return errors.New("the user name has a colon in it, which a registry takes for its end")
	}
	return nil
}

func (p *Provider) serves(image string) bool {
	for _, pattern := range p.registries {
		if pattern.Match(image) {
			return true
		}
	}
	return false
}

// none is the answer that there are no credentials. It costs nothing to ask
// again, and the next pod may have a token.
func none() *plugin.Response {
	return &plugin.Response{CacheKeyType: plugin.CacheImage, CacheDuration: new(time.Duration(0))}
}

// split returns the registry of the image and its repository, without tag and
// digest, which an image that was typed by hand may have.
func split(req *plugin.Request) (registry, repository string) {
	registry = req.Registry()
	image := req.Image
	if _, rest, found := strings.Cut(image, "://"); found {
		image = rest
	}
	_, repository, _ = strings.Cut(image, "/")
	repository, _, _ = strings.Cut(repository, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository = repository[:i]
	}
	return registry, repository
}
