// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerconfig implements a [plugin.Provider] that returns credentials from a docker
// config.json or podman auth.json. It also calls the docker-credential-* helpers that are
// configured in the file. It reads the file for each request. docs/plugins/dockerconfig.md
// describes the plugin.
//
// The public package dockerconfig parses the file. This package converts the credentials into a
// response that the kubelet can use.
package dockerconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/secretfile"
	"github.com/regcred/regcred/plugin"
)

// DefaultCacheDuration is the interval at which the kubelet re-reads its own docker config files
// (pkg/credentialprovider/provider.go). The 12h that cloud providers' configurations use could be
// longer than the lifetime of a helper's token, which is unknown.
const DefaultCacheDuration = 5 * time.Minute

// emptyCacheDuration limits how long responses without credentials are cached, so that new
// credentials in the file take effect soon.
const emptyCacheDuration = time.Minute

// Options configures a [Provider]. Path is required.
type Options struct {
	Path     string // required
	Optional bool   // a missing file is not an error

	// HelperDir is the directory of the helpers. If it is "", the helpers are searched in the PATH
	// of Environ.
	HelperDir string

	// Environ is the environment of helpers, as "key=value"; nil means the current
	// environment.
	Environ []string

	// CacheDuration is the cache duration of responses; 0 disables caching.
	CacheDuration time.Duration

	// Logger receives progress messages (Info) and warnings; nil discards them.
	Logger *slog.Logger
}

// Provider is a [plugin.Provider]. It is safe for concurrent use.
type Provider struct{ opts Options }

// New returns a provider. It validates only the options, because the file is read for
// each request.
func New(opts Options) (*Provider, error) {
	switch {
	case opts.Path == "":
		return nil, errors.New("--config is required, for example --config /etc/registry/config.json")
	case opts.CacheDuration < 0:
		return nil, fmt.Errorf("--cache-duration %v must not be negative; to disable caching, use 0s", opts.CacheDuration)
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	return &Provider{opts}, nil
}

// GetCredentials implements [plugin.Provider]. The response is valid for the whole registry. If the
// file has keys with a path in this registry, the response is valid only for the image.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	host := req.Registry()
	if host == "" {
		return nil, fmt.Errorf("image %q does not begin with a registry host", req.Image)
	}
	resp, err := p.lookupResponse(ctx, host, registry.TrimReference(req.Image))
	if err != nil {
		return nil, fmt.Errorf("registry %q: %w", host, err)
	}
	duration := p.opts.CacheDuration
	if len(resp.Auth) == 0 {
		duration = min(duration, emptyCacheDuration)
	}
	resp.CacheDuration = &duration
	return resp, nil
}

func (p *Provider) lookupResponse(ctx context.Context, registry, repository string) (*plugin.Response, error) {
	file, err := p.readFile()
	switch {
	case err != nil:
		return nil, err
	case file == nil:
		return &plugin.Response{CacheKeyType: plugin.CacheRegistry}, nil
	}
	if name, server := file.Helper(registry); name != "" {
		return p.callHelper(ctx, registry, name, server)
	}
	resp := &plugin.Response{CacheKeyType: plugin.CacheRegistry}
	if file.HasPaths(registry) {
		resp.CacheKeyType = plugin.CacheImage
	}
	resp.Auth, err = p.usableAuth(file.Find(repository))
	if err != nil {
		return nil, err
	}
	if len(resp.Auth) == 0 {
		p.opts.Logger.Warn("the docker config has no entry or credential helper for the registry, so the response is empty", "registry", registry, "file", p.opts.Path)
	}
	return resp, nil
}

// readFile reads the file. It returns nil if the file is missing and optional.
func (p *Provider) readFile() (*dockerconfig.File, error) {
	data, err := secretfile.ReadSecret(p.opts.Path)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && p.opts.Optional:
		p.opts.Logger.Info("the file does not exist", "file", p.opts.Path)
		return nil, nil
	case missing:
		return nil, fmt.Errorf("read %w; fix --config, or set --optional if the file is not required", err)
	case err != nil:
		return nil, fmt.Errorf("read %w", err)
	}
	file, err := dockerconfig.ParseFile(data)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", p.opts.Path, err)
	}
	return file, nil
}

// callHelper returns the helper's credential. The response is valid for the whole registry, because
// helpers receive no path.
func (p *Provider) callHelper(ctx context.Context, registry, name, server string) (*plugin.Response, error) {
	helper := dockerconfig.Helper{Name: name, Dir: p.opts.HelperDir, Environ: p.opts.Environ}
	auth, err := helper.Get(ctx, server)
	if err != nil {
		return nil, err
	}
	p.opts.Logger.Info("called a helper", "helper", name, "server", server, "found", !auth.IsZero())
	resp := &plugin.Response{CacheKeyType: plugin.CacheRegistry}
	switch {
	case auth.IsZero():
		return resp, nil
	case !isUsableByKubelet(auth):
		return nil, fmt.Errorf("docker-credential-%s has %s for %q, %s", name, describeToken(auth), excerpt.RedactAddress(server), tokenFix)
	}
	resp.Auth = map[string]plugin.AuthConfig{registry: {Username: auth.Username, Password: auth.Password}}
	return resp, nil
}

// usableAuth returns the matching credentials that the kubelet can use. If there are only tokens,
// which it cannot use, usableAuth returns an error.
func (p *Provider) usableAuth(matches []dockerconfig.Match) (map[string]plugin.AuthConfig, error) {
	auths := map[string]plugin.AuthConfig{}
	var tokens, open []dockerconfig.Match
	for _, m := range matches {
		key := authKey(m.Scope)
		_, taken := auths[key]
		switch {
		case openSuffix(m.Scope) != "":
			open = append(open, m)
		case !isUsableByKubelet(m.Auth):
			tokens = append(tokens, m)
		case !taken:
			p.opts.Logger.Info("using an entry", "entry", m.Key, "key", key)
			auths[key] = plugin.AuthConfig{Username: m.Auth.Username, Password: m.Auth.Password}
		}
	}
	for _, m := range open {
		if len(auths) == 0 {
			return nil, fmt.Errorf("read %q: anyone can register a name under the public suffix %q (publicsuffix.org), "+
				"so auths[%q] would send the password to third-party hosts; spell out the domain", p.opts.Path, openSuffix(m.Scope), m.Key)
		}
		p.opts.Logger.Warn("skipped an entry that would send the password to third-party hosts", "entry", m.Key)
	}
	for _, m := range tokens {
		if len(auths) == 0 {
			return nil, fmt.Errorf("read %q: auths[%q] has %s, %s", p.opts.Path, m.Key, describeToken(m.Auth), tokenFix)
		}
		p.opts.Logger.Warn("skipped an entry that the kubelet cannot use", "entry", m.Key, "holds", describeToken(m.Auth))
	}
	return auths, nil
}

// openSuffix returns the public suffix below which a scope has a *, or "".
func openSuffix(scope string) string {
	host, _, _ := strings.Cut(scope, "/")
	host, _, _ = strings.Cut(host, ":")
	return hostpattern.OpenSuffix(host)
}

const tokenFix = "which the kubelet cannot use; log in with a user name and a password or access token"

// isUsableByKubelet reports whether a credential has a user name and password rather
// than only a token.
func isUsableByKubelet(auth dockerconfig.Auth) bool {
	return !auth.Password.IsZero() || auth.IdentityToken.IsZero() && auth.RegistryToken.IsZero()
}

func describeToken(auth dockerconfig.Auth) string {
	if !auth.IdentityToken.IsZero() {
		return "an identity token"
	}
	return "a registry token"
}

// authKey returns the key under which the kubelet finds the credential for a scope.
//
// The kubelet removes a leading path segment v1 or v2 from keys. A key for a namespace with that
// name would therefore match no image. In this case the key is the host, and the response is valid
// only for this image.
func authKey(scope string) string {
	host, path, _ := strings.Cut(scope, "/")
	if strings.HasPrefix(path, "v1/") || strings.HasPrefix(path, "v2/") {
		return host
	}
	return scope
}
