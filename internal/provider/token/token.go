// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package token exchanges the pod's service account token (KEP-4412) for a registry credential. It
// sends the token to a configured endpoint, or returns the token itself as the password.
//
//	provider, err := token.New(token.Options{
//		Registries: []string{"registry.example.com"},
//		Audience:   "registry.example.com",
//	})
//
// A token is sent only to the configured endpoints, or to the runtime that pulls the image. A
// request cannot change this.
package token

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// DefaultUsername is the user name if the token is the password. Registries that accept such a
// token ignore the user name.
const DefaultUsername = "serviceaccount"

// New validates the options and returns a provider. It reads no files.
func New(opts Options) (*Provider, error) {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	p := &Provider{opts: opts, cacheKeyType: plugin.CacheRegistry, client: remote.Client{UserAgent: "token-credential-provider"}}
	switch d := opts.CacheDuration; {
	case d != nil && *d < 0:
		return nil, fmt.Errorf("%s %v: must not be negative", opts.fieldName("cacheDuration"), *d)
	case opts.TokenFile != "" && !filepath.IsAbs(opts.TokenFile):
		return nil, fmt.Errorf("%s %q: must be an absolute path", opts.fieldName("tokenFile"), opts.TokenFile)
	case opts.TokenFile != "" && opts.Optional:
		return nil, opts.nameFlags(errors.New("tokenFile and optional are mutually exclusive"))
	case opts.Exchange == nil && opts.Audience == "":
		return nil, errors.New("no audience: if the token is the password, set --audience to the value of serviceAccountTokenAudience")
	}
	for _, step := range []func() error{registry.OtherHosts(opts.OtherHosts).Validate, p.setRegistries, p.setExchange, p.setUsername} {
		if err := step(); err != nil {
			return nil, opts.nameFlags(err)
		}
	}
	p.inspectTemplates()
	return p, nil
}

func (p *Provider) setRegistries() error {
	if len(p.opts.Registries) == 0 {
		return errors.New("no registries: list the registries to provide credentials for, such as registry.example.com, with --registry or under registries")
	}
	for _, s := range p.opts.Registries {
		if s == "" || strings.Contains(s, "://") {
			return fmt.Errorf("registry %q: must be host[:port] without a scheme, such as registry.example.com", excerpt.RedactAddress(s))
		}
		host, path, part := strings.Cut(s, "/")
		pattern, err := match.Parse(s)
		if err == nil {
			err = hostpattern.Validate(host)
		}
		if err != nil {
			return fmt.Errorf("registry %q: %w", excerpt.RedactAddress(s), err)
		}
		if part { // the credential is valid only for part of the registry
			p.cacheKeyType = plugin.CacheImage
		}
		p.registries = append(p.registries, registryPattern{host, path, pattern})
	}
	return nil
}

func (p *Provider) setUsername() (err error) {
	text := p.opts.Username
	switch given := p.exchange != nil && p.exchange.lastStep().username != nil; {
	case given && text != "":
		return errors.New("username and exchange.response.username are mutually exclusive")
	case given:
		return nil
	case text == "" && p.exchange != nil:
		return errors.New("no user name: set username, or exchange.response.username if the response contains the user name")
	}
	text = cmp.Or(text, DefaultUsername)
	if p.username, err = parseTemplate(text, visibleContext()); err != nil {
		return fmt.Errorf("%s %q: %w", p.opts.fieldName("username"), text, err)
	}
	return nil
}

func (p *Provider) setExchange() (err error) {
	if p.opts.Exchange != nil {
		p.exchange, err = p.opts.Exchange.compileExchange()
	}
	return err
}

// inspectTemplates determines the cache key type and whether a token is required. If the node signs
// its own token, a service account token is required only if the request uses its claims.
func (p *Provider) inspectTemplates() {
	used := []template{p.username}
	if p.exchange != nil {
		used = append(used, p.exchange.allTemplates()...)
	}
	if useAny(used, "image", "repository") {
		p.cacheKeyType = plugin.CacheImage
	}
	p.sendsToken = p.exchange == nil || useAny(used, "token")
	p.needsToken = p.sendsToken || p.exchange.signer == nil || p.opts.Audience != "" || useAny(used, "namespace", "serviceaccount")
}

// GetCredentials returns a credential for the image's registry. If the image is outside the
// configured paths of the registry, the response has no credentials.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	host := req.Registry()
	_, repository, _ := strings.Cut(registry.TrimReference(req.Image), "/")
	switch serves, part := p.findRegistry(host, host+"/"+repository); {
	case host == "":
		return nil, fmt.Errorf("image %q does not begin with a registry host", req.Image)
	case !serves:
		return registry.OtherHosts(p.opts.OtherHosts).Response(host, "not a configured registry", "add the registry with --registry or under registries in the configuration file")
	case !part:
		p.opts.Logger.Info("no credentials: the image is outside the configured paths of the registry", "registry", host)
		return emptyResponse(), nil
	}
	cred, err := p.fetchCredential(ctx, placeholderValues{req: req, registry: host, repository: repository})
	switch {
	case err != nil:
		return nil, p.opts.nameFlags(fmt.Errorf("%s: %w", host, err))
	case cred == nil:
		p.opts.Logger.Info("no credentials: the request has no service-account token", "registry", host)
		return emptyResponse(), nil
	}
	return &plugin.Response{
		CacheKeyType:  p.cacheKeyType,
		CacheDuration: p.responseCacheDuration(cred.expires),
		Auth:          map[string]plugin.AuthConfig{host: {Username: cred.username, Password: plugin.NewSecret(cred.secret)}},
	}, nil
}

// fetchCredential returns the credential. It returns nil if there is no token and Options.Optional is
// set.
func (p *Provider) fetchCredential(ctx context.Context, v placeholderValues) (cred *credential, err error) {
	if p.needsToken {
		if v.token, err = p.requestToken(v.req); err != nil {
			return nil, err
		}
		switch {
		case v.token.text == "" && p.opts.Optional:
			return nil, nil
		case v.token.text == "":
			return nil, missingTokenError(v.req.APIVersion)
		}
	}
	get := p.callSteps
	if p.exchange == nil {
		get = p.tokenAsPassword
	}
	found, err := get(ctx, v)
	return &found, err
}

// tokenAsPassword returns the token as the password.
func (p *Provider) tokenAsPassword(_ context.Context, v placeholderValues) (cred credential, err error) {
	if err := p.checkClaims(&v.token); err != nil {
		return cred, err
	}
	username, err := p.expandUsername(v)
	return credential{username: username, secret: v.token.text, expires: v.token.claims.Expires}, err
}

// findRegistry reports whether the registry is configured (known), and whether the image is in a
// configured part of the registry (part).
func (p *Provider) findRegistry(host, image string) (known, part bool) {
	for _, r := range p.registries {
		if hostpattern.Match(r.host, host) {
			known, part = true, part || r.pattern.Match(image) && r.endsAtSegment(image)
		}
	}
	return known, part
}

// endsAtSegment reports whether the pattern's path, which is a prefix of the image's path, ends at
// the end of a path segment. A path such as team- is allowed to end within a segment.
func (r registryPattern) endsAtSegment(image string) bool {
	_, path, _ := strings.Cut(image, "/")
	rest := strings.TrimPrefix(path, r.path)
	return rest == "" || rest[0] == '/' || strings.Trim(r.path[max(0, len(r.path)-1):], "/-_.") == ""
}

// emptyResponse returns a response without credentials. The response is not cached, because the
// next pod may have a token.
func emptyResponse() *plugin.Response {
	return &plugin.Response{CacheKeyType: plugin.CacheImage, CacheDuration: new(time.Duration(0))}
}
