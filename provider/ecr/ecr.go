// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package ecr gets credentials for Amazon Elastic Container Registry, private and public. It uses
// the node's identity, or the pod's if the request contains a service account token.
//
//	provider, err := ecr.New(ecr.Options{DefaultRoleARN: os.Getenv("AWS_ECR_ROLE_ARN")})
//
// The AWS SDK finds the node's credentials and the endpoints in the environment and in its
// configuration files. For programs in a pod, see [InPod]. The package does not cache responses.
package ecr

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/plugin"
)

// Provider is a [plugin.Provider] for ECR. It is safe for concurrent use.
type Provider struct {
	opts    Options
	allowed []allowedHost
	mirrors registry.Mirrors
	roles   map[string]roleChain // by account
}

// New returns a provider. An error names the command-line flag of the invalid option.
func New(opts Options) (*Provider, error) {
	p := &Provider{opts: opts.withDefaults()}
	for _, s := range opts.AllowHosts {
		a, err := parseAllowedHost(s)
		if err != nil {
			return nil, fmt.Errorf("--allow-host %q: %w", excerpt.RedactAddress(s), err)
		}
		p.allowed = append(p.allowed, a)
	}
	err := registry.OtherHosts(opts.OtherHosts).Validate()
	if err != nil {
		return nil, err
	}
	if p.mirrors, err = registry.ParseMirrors(opts.Mirrors, registry.MirrorOptions{IsServed: p.isMirrorTarget, Owner: "Amazon ECR", Origin: opts.MirrorOrigin}); err != nil {
		return nil, err
	}
	if p.roles, err = parseRoles(opts.Roles, opts.ExternalIDs); err != nil {
		return nil, err
	}
	if opts.SessionName != "" && !isSessionName(opts.SessionName) {
		return nil, fmt.Errorf("--session-name %q: must be 2 to 64 characters long, with only letters, digits and _+=,.@-", opts.SessionName)
	}
	return p, nil
}

// GetCredentials returns a credential for images in ECR, on Options.AllowHosts, or at
// the sources of Options.Mirrors. It sends no request for other images.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	imageHost := req.Registry()
	if imageHost == "" {
		return nil, fmt.Errorf("image %q does not begin with a registry host", req.Image)
	}
	resp := &plugin.Response{CacheKeyType: p.mirrors.CacheKeyType(imageHost), CacheDuration: new(time.Duration(0))}
	h, what, ok := p.findRegistry(req.Image, imageHost)
	if !ok && p.mirrors.CoversPartOf(imageHost) {
		return resp, nil // the image is outside the mirrored path
	}
	if !ok {
		return registry.OtherHosts(p.opts.OtherHosts).Response(imageHost, "not part of Amazon ECR", "add it with --allow-host or --mirror")
	}
	budget := p.opts.Budget
	ctx, cancel := context.WithTimeoutCause(ctx, budget, fmt.Errorf("no response within %v", budget))
	defer cancel()
	auth, expires, err := p.fetchCredential(ctx, h, req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	resp.Auth = map[string]plugin.AuthConfig{imageHost: auth}
	*resp.CacheDuration = cacheDuration(expires, time.Now())
	return resp, nil
}

// findRegistry returns the registry that serves an image. what describes the image's host in error
// messages. ok is false if there is no such registry.
func (p *Provider) findRegistry(image, imageHost string) (h registryHost, what string, ok bool) {
	what = fmt.Sprintf("image host %q", imageHost)
	if rule, found := p.mirrors.Find(image); found {
		what += fmt.Sprintf(", mirrored by %q", rule.Target)
		imageHost = rule.Target
	}
	if h, ok = findHost(imageHost, p.allowed); !ok && p.opts.AnyHost {
		h, ok = registryHost{registry: imageHost}, true
	}
	return h, what, ok
}

// isMirrorTarget reports whether host can be the target of a mirror.
func (p *Provider) isMirrorTarget(host string) bool {
	_, ok := findHost(host, p.allowed)
	return ok
}

// fetchCredential gets an identity and uses it to get the registry's credential.
func (p *Provider) fetchCredential(ctx context.Context, h registryHost, req *plugin.Request) (auth plugin.AuthConfig, expires *time.Time, err error) {
	s := newSession(p.opts, h)
	defer s.close()
	pod := p.roleForPod(req)
	if err := s.loadConfig(ctx, pod == ""); err != nil {
		return auth, nil, err
	}
	s.preconnect(ctx)
	token := req.ServiceAccountToken.Reveal()
	name := cmp.Or(p.opts.SessionName, sessionName(token))
	owner, _ := p.opts.identityHint()
	as := "the " + owner
	if pod != "" {
		as = pod
		err = s.assumeForPod(ctx, pod, name, token)
	} else {
		err = s.findIdentity(ctx)
	}
	if err == nil {
		err = s.assumeChain(ctx, p.roles[h.account].remainingAfter(pod), as, name)
	}
	if err != nil {
		return auth, nil, err
	}
	return s.fetchAuthorization(ctx)
}

// roleForPod returns the role to assume for the pod. It returns "" if the node's identity is used.
// An annotation overrides the default role even if it is empty.
func (p *Provider) roleForPod(req *plugin.Request) string {
	if req.ServiceAccountToken.IsZero() {
		return ""
	}
	role, annotated := req.ServiceAccountAnnotations[RoleAnnotation]
	if !annotated {
		role = p.opts.DefaultRoleARN
	}
	if role == "" {
		p.opts.Logger.Info("the service account has no IAM role; using the node's identity", "annotation", RoleAnnotation)
	}
	return role
}
