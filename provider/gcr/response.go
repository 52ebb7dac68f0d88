// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/plugin"
)

// Username is the user name to use with an access token.
const Username = "_token"

// GetCredentials returns an access token for Google's registries, Options.AllowHosts and the
// sources of Options.Mirrors. If Options.Flow is not [FlowRegistry], it returns the docker config
// from the instance metadata. Errors contain the registry, the endpoint and a fix.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.Budget, fmt.Errorf("no response within %v", p.opts.Budget))
	defer cancel()
	defer p.metadataTransport.CloseIdleConnections()
	defer p.externalTransport.CloseIdleConnections()
	host := req.Registry()
	keys, scope := p.authKeysFor(req)
	switch {
	case keys != nil || p.opts.Flow != FlowRegistry:
	case p.mirrors.CoversPartOf(host): // the image is outside the mirrored path
		return &plugin.Response{CacheKeyType: scope, CacheDuration: new(time.Duration)}, nil
	default:
		return registry.OtherHosts(p.opts.OtherHosts).Response(host, "not a Google registry", "add it with --allow-host or --mirror")
	}
	resp, err := p.tokenResponse(ctx, keys, scope, req)
	if err != nil {
		return nil, fmt.Errorf("registry %q: %w", host, p.addHint(err))
	}
	return resp, nil
}

func (p *Provider) tokenResponse(ctx context.Context, keys []string, scope plugin.CacheKeyType, req *plugin.Request) (*plugin.Response, error) {
	if p.opts.Flow != FlowRegistry {
		if p.opts.IdentityProvider != "" || p.opts.STSAudience != "" {
			p.opts.Logger.Warn("workload identity is ignored because the flow is not gcr", "flow", p.opts.Flow)
		}
		auth, err := p.metadataDockerConfig(ctx)
		if err != nil {
			return nil, err
		}
		// The scope and lifetime of these credentials are unknown.
		return p.newResponse(plugin.CacheImage, 0, auth), nil
	}
	token, err := p.fetchToken(ctx, req)
	if err != nil {
		return nil, err
	}
	auth := make(map[string]plugin.AuthConfig, len(keys))
	for _, key := range keys {
		auth[key] = plugin.AuthConfig{Username: Username, Password: token.value}
	}
	// A token is valid for every image in a registry, unless a mirror covers only part of the
	// registry. It is also valid for other registries, but the response may lack their keys.
	resp := p.newResponse(scope, token.cacheDuration(), auth)
	resp.CacheKeyType = p.narrowestScope(resp.CacheKeyType, scope)
	return resp, nil
}

// narrowestScope limits the configured cache key type set to the scope of the response. With a
// wider type, the kubelet would use the key for a mirrored path for the whole host, and it would
// use the response for registries that have no key in it.
func (p *Provider) narrowestScope(set, scope plugin.CacheKeyType) plugin.CacheKeyType {
	own := p.opts.AnyHost || len(p.opts.AllowHosts) > 0 || len(p.opts.Mirrors) > 0
	switch {
	case scope == plugin.CacheImage:
		return scope
	case set == plugin.CacheGlobal && own:
		return plugin.CacheRegistry
	}
	return set
}

// newResponse returns a response. The cache settings in the options override scope and d.
func (p *Provider) newResponse(scope plugin.CacheKeyType, d time.Duration, auth map[string]plugin.AuthConfig) *plugin.Response {
	if p.opts.CacheDuration != nil {
		d = *p.opts.CacheDuration
	}
	return &plugin.Response{CacheKeyType: cmp.Or(p.opts.CacheKeyType, scope), CacheDuration: &d, Auth: auth}
}

// fetchToken returns an access token for the pod or the node. A pod that must pull
// as its service account never gets the node's token.
func (p *Provider) fetchToken(ctx context.Context, req *plugin.Request) (accessToken, error) {
	annotated := req.ServiceAccountAnnotations[AnnotationEnable] == "true"
	switch {
	case p.opts.STSAudience != "", p.opts.IdentityProvider != "" && annotated:
		p.opts.Logger.Info("pulling as the pod's service account")
		return p.podToken(ctx, req)
	case p.opts.RequireWorkloadIdentity:
		return accessToken{}, errNotAnnotated
	}
	if p.opts.CredentialsFile != "" {
		p.opts.Logger.Info("pulling with workload identity federation")
		return p.credentialsFileToken(ctx)
	}
	p.opts.Logger.Info("pulling as the node")
	return p.nodeToken(ctx)
}
