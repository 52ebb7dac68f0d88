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
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/hostpattern/public"
	"github.com/regcred/regcred/internal/registry"
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
	// in the syntax of matchImages, but without a * in the last two labels of
	// the host, or where owners' names stand under a public suffix. At least
	// one is required.
	Registries []string

	// OtherHosts is what is done about an image of another host.
	OtherHosts string

	// Username is a template. "" means [DefaultUsername] for a token that is
	// passed through, and otherwise that the answer has the user name.
	Username string

	// Audience, if it is not "", is what the token must have been issued for.
	// It is required for a token that is passed through.
	Audience string

	// TokenFile, if it is not "", is the absolute path of a token for requests
	// without one. It is read on each run. The token of a request, which is
	// the pod's own, comes first.
	TokenFile string

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

	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil means [time.Now]
}

// New checks the options, without asking anybody. Files that they name are
// read when they are needed.
func New(opts Options) (*Provider, error) {
	p := &Provider{
		otherHosts: registry.OtherHosts(opts.OtherHosts), audience: opts.Audience, tokenFile: opts.TokenFile, optional: opts.Optional,
		cacheDuration: opts.CacheDuration, cacheKeyType: plugin.CacheRegistry, client: remote.Client{UserAgent: "token-credential-provider"},
		log: opts.Logger, now: opts.Now,
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.now == nil {
		p.now = time.Now
	}
	switch d := opts.CacheDuration; {
	case d != nil && *d < 0:
		return nil, fmt.Errorf("cacheDuration %v: must not be negative", *d)
	case opts.TokenFile != "" && !filepath.IsAbs(opts.TokenFile):
		return nil, fmt.Errorf("tokenFile %q: must be an absolute path", opts.TokenFile)
	case opts.TokenFile != "" && opts.Optional:
		return nil, errors.New("tokenFile and optional are mutually exclusive")
	case opts.Exchange == nil && opts.Audience == "":
		return nil, errors.New("no audience: if the token is the password, set --audience to the value of serviceAccountTokenAudience")
	}
	if err := p.otherHosts.Validate(); err != nil {
		return nil, err
	}
	for _, step := range []func(Options) error{p.setRegistries, p.setExchange, p.setUsername} {
		if err := step(opts); err != nil {
			return nil, err
		}
	}
	p.setToken()
	return p, nil
}

func (p *Provider) setRegistries(opts Options) error {
	if len(opts.Registries) == 0 {
		return errors.New("no registries: list the registries to provide credentials for, such as registry.example.com, with --registry or under registries")
	}
	for _, s := range opts.Registries {
		if s == "" || strings.Contains(s, "://") {
			return fmt.Errorf("registry %q: must be host[:port] without a scheme, such as registry.example.com", s)
		}
		host, _, part := strings.Cut(s, "/")
		pattern, err := match.Parse(s)
		if err == nil {
			err = public.Check(host)
		}
		if err != nil {
			return fmt.Errorf("registry %q: %w", s, err)
		}
		if part { // What is right for a part of a registry is not for all of it.
			p.cacheKeyType = plugin.CacheImage
		}
		p.registries = append(p.registries, registryPattern{host, pattern})
	}
	return nil
}

func (p *Provider) setUsername(opts Options) error {
	text := opts.Username
	switch given := p.exchange != nil && p.exchange.last().username != nil; {
	case given && text != "":
		return errors.New("username and exchange.response.username are mutually exclusive")
	case given:
		return nil
	case text == "" && opts.Exchange != nil:
		return errors.New("no user name: set username, or exchange.response.username if the response contains the user name")
	case text == "":
		text = DefaultUsername
	}
	t, err := parseTemplate(text, visible())
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

// setToken says what the token is needed for. A node that signs a token of its
// own does without, unless something asks for what the token says.
func (p *Provider) setToken() {
	texts := []template{}
	if p.username != nil {
		texts = append(texts, *p.username)
	}
	if p.exchange != nil {
		texts = append(texts, p.exchange.templates()...)
	}
	p.sendsToken = p.exchange == nil || p.exchange.uses("token")
	p.needsToken = p.sendsToken || p.exchange.signer == nil || p.audience != "" ||
		slices.ContainsFunc(texts, func(t template) bool { return t.uses("namespace") || t.uses("serviceaccount") })
}

// narrow makes answers hold for one image if they depend on it.
func (p *Provider) narrow(templates ...template) {
	for _, t := range templates {
		if t.uses("image") || t.uses("repository") {
			p.cacheKeyType = plugin.CacheImage
		}
	}
}

// GetCredentials answers with a credential for the registry of the image. A
// part of a registry that is not configured gets none.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	host, repository := split(req)
	switch serves, part := p.serves(host, host+"/"+repository); {
	case host == "":
		return nil, fmt.Errorf("image %q does not begin with a registry host", req.Image)
	case !serves:
		return p.otherHosts.Response(host, "not a configured registry", "add the registry with --registry or under registries in the configuration file")
	case !part:
		p.log.Info("no credentials: the image is outside the configured paths of the registry", "registry", host)
		return none(), nil
	}
	cred, err := p.answer(ctx, values{req: req, registry: host, repository: repository})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", host, err)
	case cred == nil:
		p.log.Info("no credentials: the request has no service-account token", "registry", host)
		return none(), nil
	}
	return &plugin.Response{
		CacheKeyType:  p.cacheKeyType,
		CacheDuration: p.lifetime(cred.expires),
		Auth:          map[string]plugin.AuthConfig{host: {Username: cred.username, Password: plugin.NewSecret(cred.secret)}},
	}, nil
}

// answer returns the credential, or nil if there is no token and need not be.
func (p *Provider) answer(ctx context.Context, v values) (cred *credential, err error) {
	if p.needsToken {
		if v.token, err = p.tokenFor(v.req); err != nil {
			return nil, err
		}
		if v.token.text == "" && p.optional {
			return nil, nil
		}
		if v.token.text == "" {
			return nil, missingToken(v.req.APIVersion)
		}
	}
	give := p.trade
	if p.exchange == nil {
		give = p.passThrough
	}
	found, err := give(ctx, v)
	return &found, err
}

// passThrough makes the token itself the password.
func (p *Provider) passThrough(_ context.Context, v values) (cred credential, err error) {
	if err := p.identify(&v.token); err != nil {
		return cred, err
	}
	username, err := p.expandUsername(v)
	return credential{username: username, secret: v.token.text, expires: v.token.claims.Expires}, err
}

// serves reports whether the registry is configured, and whether the part of
// it is that the image belongs to.
func (p *Provider) serves(host, image string) (known, part bool) {
	for _, r := range p.registries {
		if hostpattern.Match(r.host, host) {
			known, part = true, part || r.pattern.Match(image)
		}
	}
	return known, part
}

// none is the answer that there are no credentials. It costs nothing to ask
// again, and the next pod may have a token.
func none() *plugin.Response {
	return &plugin.Response{CacheKeyType: plugin.CacheImage, CacheDuration: new(time.Duration(0))}
}

// split returns the registry of the image and its repository, without tag and
// digest, which an image that was typed by hand may have.
func split(req *plugin.Request) (host, repository string) {
	host = req.Registry()
	image := req.Image
	if _, rest, found := strings.Cut(image, "://"); found {
		image = rest
	}
	_, repository, _ = strings.Cut(image, "/")
	repository, _, _ = strings.Cut(repository, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository = repository[:i]
	}
	return host, repository
}
