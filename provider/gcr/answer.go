// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Username is the user name that goes with an access token.
const Username = "_token"

// GetCredentials answers with an access token for Google's registries and
// those of AllowHosts, and with nothing for others; in the other flows with
// the docker config. Its errors name the registry, the endpoint and what to
// do.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.Budget, fmt.Errorf("no answer within %v", p.opts.Budget))
	defer cancel()
	defer p.http.CloseIdleConnections()
	registry := req.Registry()
	resp, err := p.answer(ctx, registry, req)
	if err != nil {
		return nil, fmt.Errorf("registry %q: %w", registry, explain(err))
	}
	return resp, nil
}

func (p *Provider) answer(ctx context.Context, registry string, req *plugin.Request) (*plugin.Response, error) {
	if p.opts.Flow != FlowRegistry {
		if p.opts.IdentityProvider != "" || p.opts.STSAudience != "" {
			p.opts.Log.Warn("the flow is not gcr: workload identity is not used", "flow", p.opts.Flow)
		}
		auth, err := p.dockercfg(ctx)
		if err != nil {
			return nil, err
		}
		// What the document holds, and for how long, is not known here.
		return p.respond(plugin.CacheImage, 0, auth), nil
	}
	keys := keysFor(registry, p.opts.AllowHosts)
	if keys == nil {
		p.opts.Log.Warn("not one of Google's registries, so there are no credentials for it; --allow-host adds hosts", "registry", registry)
		return &plugin.Response{CacheKeyType: plugin.CacheImage, CacheDuration: new(time.Duration)}, nil
	}
	token, err := p.token(ctx, req)
	if err != nil {
		return nil, err
	}
	auth := make(map[string]plugin.AuthConfig, len(keys))
	for _, key := range keys {
		auth[key] = plugin.AuthConfig{Username: Username, Password: token.value}
	}
	// One token serves every image of a registry. It serves other registries
	// too, but the answer may not have their keys.
	return p.respond(plugin.CacheRegistry, token.cacheable(), auth), nil
}

// respond makes an answer, with what the options say about its cache.
func (p *Provider) respond(scope plugin.CacheKeyType, d time.Duration, auth map[string]plugin.AuthConfig) *plugin.Response {
	if p.opts.CacheDuration != nil {
		d = *p.opts.CacheDuration
	}
	return &plugin.Response{CacheKeyType: cmp.Or(p.opts.CacheKeyType, scope), CacheDuration: &d, Auth: auth}
}

// token decides as whom to pull. A pod that is to pull as its service account
// never gets the token of the node in its place.
func (p *Provider) token(ctx context.Context, req *plugin.Request) (accessToken, error) {
	annotated := req.ServiceAccountAnnotations[AnnotationEnable] == "true"
	switch {
	case p.opts.STSAudience != "", p.opts.IdentityProvider != "" && annotated:
		p.opts.Log.Info("pulling as the pod's service account")
		return p.podToken(ctx, req)
	case p.opts.RequireWorkloadIdentity:
		return accessToken{}, errNotAnnotated
	}
	p.opts.Log.Info("pulling as the node")
	return p.nodeToken(ctx)
}
