// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package acr gets credentials for Azure Container Registry: a token of
// Microsoft Entra ID, for the identity of the node or of the pod's service
// account, is exchanged for a refresh token of the registry.
//
//	provider, err := acr.New(acr.Options{ConfigFile: "/etc/kubernetes/azure.json"})
//	resp, err := provider.GetCredentials(ctx, &plugin.Request{Image: "example.azurecr.io/app"})
//
// It is what cmd/acr-credential-provider is made of; docs/plugins/acr.md says
// what every option is for, and where it differs from the plugin of the
// cloud-provider-azure project on purpose.
//
// Tokens go to two kinds of hosts alone: the token endpoints of the cloud that
// the configuration names, and registries whose name is one of ACR, label by
// label. The host is looked at before anything is read or asked.
package acr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/plugin"
)

// Provider gets credentials for Azure Container Registry. It is safe for
// concurrent use.
type Provider struct {
	opts    Options
	rules   hostRules
	mirrors registry.Mirrors
	arc     arcAgent
}

// New checks the options. The configuration is read for each answer.
func New(opts Options) (*Provider, error) {
	if opts.ConfigFile == "" && opts.pod == nil {
		return nil, errors.New("the path of the cloud configuration (azure.json) is missing")
	}
	if err := opts.Binding.check(); err != nil {
		return nil, err
	}
	if err := registry.OtherHosts(opts.OtherHosts).Validate(); err != nil {
		return nil, err
	}
	rules, err := newHostRules(opts.AllowHosts)
	if err != nil {
		return nil, err
	}
	mirrors, err := parseMirrors(opts, rules)
	if err != nil {
		return nil, err
	}
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.now == nil {
		opts.now = time.Now
	}
	if opts.Budget <= 0 {
		opts.Budget = remote.Budget
	}
	return &Provider{opts: opts, rules: rules, mirrors: mirrors, arc: arcOf(runtime.GOOS, opts.Getenv)}, nil
}

// GetCredentials answers for images of ACR, and of the sources of mirrors.
// Others are [Options.OtherHosts]. The refresh token is good for all of the
// registry, so the answer is too, unless a mirror serves a part of it.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.Budget, fmt.Errorf("no response within %v", p.opts.Budget))
	defer cancel()
	s := p.newSession(req)
	defer s.close()
	host := req.Registry()
	rule, mirrored := p.mirrors.Find(req.Image)
	if mirrored {
		host = rule.Target
	}
	var resp *plugin.Response
	reg, known, err := s.registry(ctx, host)
	switch {
	case err != nil:
	case known:
		resp, err = p.answer(ctx, s, reg, rule)
	case mirrored:
		err = foreignTarget(rule)
	case p.mirrors.Divides(host):
		return registry.EmptyOthers.Response(host, "", "") // the part that no mirror serves
	default:
		return registry.OtherHosts(p.opts.OtherHosts).Response(host, "not part of "+owner, "if the host is a proxy or alias of a registry, add the host with --allow-host")
	}
	if err != nil {
		return nil, fmt.Errorf("credentials for %s: %w", host, err)
	}
	return resp, nil
}

func (p *Provider) newSession(req *plugin.Request) *session {
	s := &session{opts: &p.opts, req: req, rules: p.rules, arc: p.arc}
	s.client = remote.Client{
		Transport: p.opts.Transport, UserAgent: userAgent,
		Timeout: p.opts.Timeout, Backoff: p.opts.Backoff,
	}
	if s.client.Transport == nil {
		s.client.Transport = s.own(remote.Base())
	}
	return s
}

// answer gets a token for the registry, exchanges it, and says how long the
// result may be kept. The rule is that of the mirror, if the image has one.
func (p *Provider) answer(ctx context.Context, s *session, reg acrHost, rule registry.MirrorRule) (*plugin.Response, error) {
	who, err := s.identity(rule.Source != "")
	if err != nil {
		return nil, err
	}
	if who.static != nil {
		return s.staticAnswer(ctx, reg, *who.static)
	}
	// Both at once: the registry's challenge needs no token.
	asked := s.askChallenge(ctx, reg)
	defer asked.end()
	token, err := who.token(ctx)
	if err != nil {
		return nil, err
	}
	refresh, err := s.exchange(ctx, reg, asked, who.tenant, token)
	if err != nil {
		return nil, err
	}
	auth := map[string]plugin.AuthConfig{
		anonymousKey: {},
		reg.key:      {Username: refreshUser, Password: plugin.NewSecret(refresh)},
	}
	if rule.Source != "" {
		key := s.req.Registry()
		if _, path, ok := strings.Cut(rule.Source, "/"); ok {
			key += "/" + path
		}
		auth[key] = auth[reg.key]
	}
	return &plugin.Response{
		CacheKeyType: p.mirrors.Scope(s.req.Registry()), CacheDuration: new(s.cacheFor(refresh)), Auth: auth,
	}, nil
}

// staticAnswer hands out the secret of the configuration under the keys of
// upstream, and under the host of the image if none of those covers it.
func (s *session) staticAnswer(ctx context.Context, reg acrHost, secret plugin.AuthConfig) (*plugin.Response, error) {
	env, err := s.environment(ctx)
	if err != nil {
		return nil, err
	}
	auth := map[string]plugin.AuthConfig{anonymousKey: {}}
	for _, suffix := range suffixes() {
		auth["*."+suffix] = secret
	}
	if suffix := cleanSuffix(env.suffix); strings.Contains("."+suffix, ".azurecr.") {
		auth["*."+suffix] = secret
	}
	if _, parent, _ := strings.Cut(reg.key, "."); auth["*."+parent].Username == "" {
		auth[reg.key] = secret
	}
	return &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(maxCache), Auth: auth}, nil
}

// maxCache bounds how long an answer is kept, as upstream does.
const maxCache = time.Hour

// cacheFor is half of what is left of the refresh token's life, which is three
// hours with the real registries. Its own clock bounds that life too, since
// the token is fresh: a node that is behind would keep it for too long. A
// token that does not say when it ends is not kept.
func (s *session) cacheFor(refresh string) time.Duration {
	claims, err := jwt.Parse(refresh)
	if err != nil || claims.Expires.IsZero() {
		s.opts.Logger.Warn("the refresh token has no expiry, so the response is not cached")
		return 0
	}
	left := claims.Expires.Sub(s.opts.now())
	if !claims.IssuedAt.IsZero() {
		left = min(left, claims.Expires.Sub(claims.IssuedAt))
	}
	return max(min(left/2, maxCache), 0).Truncate(time.Second)
}

// anonymousKey is in every answer of upstream, without user and password. It
// lets an image of a registry with anonymous pull through if the registry
// refuses the identity.
const anonymousKey = "*.azurecr.*"

// refreshUser is the user name that says that the password is a refresh token.
const refreshUser = "00000000-0000-0000-0000-000000000000"
