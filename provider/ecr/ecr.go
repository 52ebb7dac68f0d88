// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package ecr gets credentials for Amazon Elastic Container Registry, private
// and public, with the identity of the node or, in service-account mode, that
// of the pod.
//
//	provider, err := ecr.New(ecr.Options{DefaultRoleARN: os.Getenv("AWS_ECR_ROLE_ARN")})
//
// Where the node's credentials come from, and which endpoints are asked, is
// decided by the AWS SDK, from the environment of the process and the files
// that it names. Nothing is cached: that is for the host of a plugin to do.
package ecr

import (
	"context"
	"fmt"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Provider is a [plugin.Provider] for ECR. It is safe for concurrent use.
type Provider struct {
	opts    Options
	allowed []allowed
}

// New returns a provider. The error concerns AllowHosts.
func New(opts Options) (*Provider, error) {
	p := &Provider{opts: opts.withDefaults()}
	for _, s := range opts.AllowHosts {
		a, err := parseAllowed(s)
		if err != nil {
			return nil, fmt.Errorf("--allow-host %q: %w", s, err)
		}
		p.allowed = append(p.allowed, a)
	}
	return p, nil
}

// GetCredentials answers for images of ECR, and of the hosts that are allowed.
// For all others the answer is empty, and nothing is asked of anybody.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	registry := req.Registry()
	if registry == "" {
		return nil, fmt.Errorf("image %q: it does not begin with the host of a registry", req.Image)
	}
	resp := &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Duration(0))}
	h, ok := find(registry, p.allowed)
	if !ok {
		p.opts.Logger.Warn("the image host is none of Amazon ECR's, so the answer is empty; --allow-host serves it all the same",
			"host", registry)
		return resp, nil
	}
	budget := p.opts.Budget
	ctx, cancel := context.WithTimeoutCause(ctx, budget, fmt.Errorf("no answer within %v", budget))
	defer cancel()
	auth, expires, err := p.ask(ctx, h, req)
	if err != nil {
		return nil, fmt.Errorf("image host %q: %w", registry, err)
	}
	resp.Auth = map[string]plugin.AuthConfig{registry: auth}
	*resp.CacheDuration = cacheDuration(expires, time.Now())
	return resp, nil
}

// ask gets an identity, and with it the registry's credentials.
func (p *Provider) ask(ctx context.Context, h host, req *plugin.Request) (auth plugin.AuthConfig, expires *time.Time, err error) {
	if h.region == "" && !h.public {
		if h.region, err = findRegion(ctx, p.opts); err != nil {
			return auth, nil, err
		}
	}
	role := p.role(req)
	s, err := load(ctx, p.opts, h, role == "")
	if err != nil {
		return auth, nil, err
	}
	if role != "" {
		err = s.assume(ctx, role, req.ServiceAccountToken.Reveal())
	} else {
		err = s.findIdentity(ctx)
	}
	if err != nil {
		return auth, nil, err
	}
	return s.authorize(ctx)
}

// role returns the role to take in the pod's name; "" means that the node's
// identity is used. An annotation that is present decides, even if it is empty.
func (p *Provider) role(req *plugin.Request) string {
	if req.ServiceAccountToken.IsZero() {
		return ""
	}
	role, annotated := req.ServiceAccountAnnotations[RoleAnnotation]
	if !annotated {
		role = p.opts.DefaultRoleARN
	}
	if role == "" {
		p.opts.Logger.Info("no role for the service account: using the identity of the node", "annotation", RoleAnnotation)
	}
	return role
}
