// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package acr gets credentials for Azure Container Registry. It exchanges a
// Microsoft Entra ID token of the node's or the pod's identity for a refresh token
// of the registry.
//
//	provider, err := acr.New(acr.Options{ConfigFile: "/etc/kubernetes/azure.json"})
//	resp, err := provider.GetCredentials(ctx, &plugin.Request{Image: "example.azurecr.io/app"})
//
// cmd/acr-credential-provider is the plugin. docs/plugins/acr.md describes the
// options and the differences from the plugin of cloud-provider-azure.
//
// Tokens are sent only to the token endpoints of the configured cloud and to ACR
// registries. The host is checked before any file is read or request sent.
package acr

import (
	"cmp"
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

// Provider is a [plugin.Provider] for Azure Container Registry. It is safe for
// concurrent use.
type Provider struct {
	opts    Options
	rules   hostRules
	mirrors registry.Mirrors
	arc     arcAgent
}

// New validates the options and returns a provider. The configuration file is read for each
// request.
func New(opts Options) (*Provider, error) {
	if opts.ConfigFile == "" && opts.pod == nil {
		return nil, errors.New("the path of the cloud configuration (azure.json) is missing")
	}
	if err := opts.Binding.validate(); err != nil {
		return nil, err
	}
	if err := registry.OtherHosts(opts.OtherHosts).Validate(); err != nil {
		return nil, err
	}
	rules, err := newHostRules(opts.AllowHosts)
	if err != nil {
		return nil, err
	}
	mirrors, err := parseMirrorOptions(opts, rules)
	if err != nil {
		return nil, err
	}
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Budget = cmp.Or(max(opts.Budget, 0), remote.RequestTimeout)
	if opts.now == nil {
		opts.now = time.Now
	}
	return &Provider{opts: opts, rules: rules, mirrors: mirrors, arc: newArcAgent(runtime.GOOS, opts.Getenv)}, nil
}

// GetCredentials returns a credential for images in ACR or at the source of a mirror. The response
// is valid for the whole registry, unless a mirror covers only part of the image's host.
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
	reg, known, err := s.findRegistry(ctx, host)
	switch {
	case err != nil:
	case known:
		resp, err = p.fetchRefreshToken(ctx, s, reg, rule)
	case mirrored:
		err = foreignTargetError(rule)
	case p.mirrors.CoversPartOf(host):
		return registry.OtherHostsEmpty.Response(host, "", "") // the image is outside the mirrored path
	default:
		return registry.OtherHosts(p.opts.OtherHosts).Response(host, "not part of "+serviceName, "if the host is a proxy or alias of a registry, add the host with --allow-host")
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
		s.client.Transport = s.newTransport(remote.NewBaseTransport())
	}
	return s
}

// fetchRefreshToken gets an Entra ID token, exchanges it for the registry's refresh token, and returns
// the response. rule is the zero value if no mirror covers the image.
func (p *Provider) fetchRefreshToken(ctx context.Context, s *session, reg acrHost, rule registry.MirrorRule) (*plugin.Response, error) {
	who, err := s.selectIdentity(rule.Source != "")
	if err != nil {
		return nil, err
	}
	if who.staticCredential != nil {
		return s.staticResponse(ctx, reg, *who.staticCredential)
	}
	// The challenge request needs no token, so send it while the token is requested.
	wait, stop := s.startChallenge(ctx, reg)
	defer stop()
	token, err := who.token(ctx)
	if err != nil {
		return nil, err
	}
	refresh, err := s.exchangeToken(ctx, reg, wait, who.tenant, token)
	if err != nil {
		return nil, err
	}
	auth := map[string]plugin.AuthConfig{
		anonymousKey: {},
		reg.authKey:  {Username: refreshTokenUser, Password: plugin.NewSecret(refresh)},
	}
	if rule.Source != "" {
		key := s.req.Registry()
		if _, path, ok := strings.Cut(rule.Source, "/"); ok {
			key += "/" + path
		}
		auth[key] = auth[reg.authKey]
	}
	return &plugin.Response{
		CacheKeyType: p.mirrors.CacheKeyType(s.req.Registry()), CacheDuration: new(s.cacheDuration(refresh)), Auth: auth,
	}, nil
}

// staticResponse returns the client secret from the configuration under the keys that the upstream
// plugin uses. If none of these keys matches the image's host, the host is a key too.
func (s *session) staticResponse(ctx context.Context, reg acrHost, secret plugin.AuthConfig) (*plugin.Response, error) {
	env, err := s.loadEnvironment(ctx)
	if err != nil {
		return nil, err
	}
	auth := map[string]plugin.AuthConfig{anonymousKey: {}}
	for _, suffix := range publicCloudSuffixes() {
		auth["*."+suffix] = secret
	}
	if suffix := trimSuffixWildcard(env.suffix); strings.Contains("."+suffix, ".azurecr.") {
		auth["*."+suffix] = secret
	}
	if _, parent, _ := strings.Cut(reg.authKey, "."); auth["*."+parent].Username == "" {
		auth[reg.authKey] = secret
	}
	return &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(maxCacheDuration), Auth: auth}, nil
}

// maxCacheDuration limits the cache duration, as in the upstream plugin.
const maxCacheDuration = time.Hour

// cacheDuration returns half of the refresh token's remaining lifetime. In case the node's clock is
// slow, it uses at most half of the lifetime between the token's own timestamps. A token without an
// expiry is not cached. Tokens of real registries are valid for three hours.
func (s *session) cacheDuration(refresh string) time.Duration {
	claims, err := jwt.Parse(refresh)
	if err != nil || claims.Expires.IsZero() {
		s.opts.Logger.Warn("the refresh token has no expiry, so the response is not cached")
		return 0
	}
	left := claims.Expires.Sub(s.opts.now())
	if !claims.IssuedAt.IsZero() {
		left = min(left, claims.Expires.Sub(claims.IssuedAt))
	}
	return max(min(left/2, maxCacheDuration), 0).Truncate(time.Second)
}

// anonymousKey has no credential, so that images can be pulled anonymously if the registry rejects
// the identity. The upstream plugin returns it in every response.
const anonymousKey = "*.azurecr.*"

// refreshTokenUser is the user name for a refresh token.
const refreshTokenUser = "00000000-0000-0000-0000-000000000000"
