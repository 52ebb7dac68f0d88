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
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/plugin"
)

// Options configure a [Provider]. ConfigFile is required.
type Options struct {
	ConfigFile string // the node's cloud configuration, azure.json: JSON or YAML

	// Mirrors are "SOURCE:TARGET" or "SOURCE=TARGET", several separated by
	// commas: images that begin with SOURCE, a host or a host and a path, are
	// pulled from TARGET by way of the container runtime.
	Mirrors []string

	// AllowHosts are further hosts that are registries of ACR: host[:port],
	// where * stands for text within one label.
	AllowHosts []string

	// DefaultClientID and DefaultTenantID serve for service accounts that lack
	// the annotation.
	DefaultClientID string
	DefaultTenantID string

	// Binding says where identity bindings are; the zero value is for nowhere.
	Binding Binding

	// FallbackToNode lets pods without a service account, or whose service
	// account names no identity, use that of the node. It is about the two
	// ways in which pods can have an identity of their own.
	FallbackToNode bool

	// StaticSecret hands aadClientId and aadClientSecret themselves to whoever
	// asks, as upstream does, instead of a token that they are exchanged for.
	StaticSecret bool

	Getenv func(string) string // nil means [os.Getenv]
	Log    *slog.Logger        // nil discards
	Now    func() time.Time    // nil means [time.Now]

	Transport http.RoundTripper // of every request; nil means [remote.NewTransport]
	Budget    time.Duration     // for one answer; 0 means [remote.Budget]
	Timeout   time.Duration     // of one attempt at a request; 0 means that of [remote.Client]
	Backoff   time.Duration     // before the second attempt; 0 means that of [remote.Client]
}

// Provider gets credentials for Azure Container Registry. It is safe for
// concurrent use.
type Provider struct {
	opts    Options
	rules   hostRules
	mirrors []mirror
}

// New checks the options. The configuration is read for each answer.
func New(opts Options) (*Provider, error) {
	if opts.ConfigFile == "" {
		return nil, errors.New("the path of the cloud configuration (azure.json) is missing")
	}
	if err := opts.Binding.check(); err != nil {
		return nil, err
	}
	rules, err := newHostRules(opts.AllowHosts)
	if err != nil {
		return nil, err
	}
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Budget <= 0 {
		opts.Budget = remote.Budget
	}
	return &Provider{opts: opts, rules: rules, mirrors: parseMirrors(opts.Mirrors, opts.Log)}, nil
}

// GetCredentials answers for images of ACR, and of the sources of mirrors. For
// other images the answer is empty. The refresh token is good for all of the
// registry, so the answer is too, unless a mirror serves a part of it.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.Budget, fmt.Errorf("no answer within %v", p.opts.Budget))
	defer cancel()
	s := p.newSession(req)
	defer s.close()
	source, host := p.locate(req)
	reg, known, err := s.registry(ctx, host)
	if err == nil && !known {
		p.opts.Log.Warn("not an Azure container registry, so there are no credentials for it; --allow-host adds hosts", "host", host, "image", req.Image)
		return &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Duration(0))}, nil
	}
	var resp *plugin.Response
	if err == nil {
		resp, err = s.answer(ctx, reg, source)
	}
	if err != nil {
		return nil, fmt.Errorf("credentials for %s: %w", host, err)
	}
	return resp, nil
}

// locate returns the host that the image is pulled from, and the source of the
// mirror that says so, if one does.
func (p *Provider) locate(req *plugin.Request) (source, host string) {
	_, image, found := strings.Cut(req.Image, "://")
	if !found {
		image = req.Image
	}
	for _, m := range p.mirrors {
		if m.covers(image) {
			return m.source, m.host
		}
	}
	return "", req.Registry()
}

// answer gets a token for the registry, exchanges it, and says how long the
// result may be kept.
func (s *session) answer(ctx context.Context, reg registry, source string) (*plugin.Response, error) {
	who, err := s.identity(source != "")
	if err != nil {
		return nil, err
	}
	if who.static != nil {
		return s.staticAnswer(ctx, reg, *who.static)
	}
	token, err := who.token(ctx)
	if err != nil {
		return nil, err
	}
	refresh, err := s.exchange(ctx, reg, who.tenant, token)
	if err != nil {
		return nil, err
	}
	auth := map[string]plugin.AuthConfig{
		anonymousKey: {},
		reg.key:      {Username: refreshUser, Password: plugin.Secret(refresh)},
	}
	resp := &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(s.cacheFor(refresh)), Auth: auth}
	if source != "" {
		auth[source] = auth[reg.key]
	}
	if s.isDivided(s.req.Registry()) {
		resp.CacheKeyType = plugin.CacheImage
	}
	return resp, nil
}

// anonymousKey is in every answer of upstream, without user and password. It
// lets an image of a registry with anonymous pull through if the registry
// refuses the identity.
const anonymousKey = "*.azurecr.*"

// refreshUser is the user name that says that the password is a refresh token.
const refreshUser = "00000000-0000-0000-0000-000000000000"
