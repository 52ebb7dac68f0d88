// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerconfig is a [plugin.Provider] that answers from a docker
// config.json or a podman auth.json, and from the docker-credential-* helpers
// that it names. The file is read on each run. docs/plugins/dockerconfig.md
// describes it for operators.
//
// How such a file is read is the business of the package dockerconfig at the
// root of this module; this one turns what it finds into an answer that a
// kubelet can use.
package dockerconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/secretfile"
	"github.com/regcred/regcred/plugin"
)

// DefaultCacheDuration is how long an answer may be reused. It is the interval
// at which a kubelet re-reads its own docker config files
// (pkg/credentialprovider/provider.go). The defaultCacheDuration of a
// configuration, often copied from that of a cloud as 12h, would outlive
// tokens of helpers, which do not say when they expire.
const DefaultCacheDuration = 5 * time.Minute

// emptyCacheDuration is the most for which an answer without credentials may
// be reused: an entry that is added should soon be seen.
const emptyCacheDuration = time.Minute

// Options are the settings of a [Provider]. Path is required.
type Options struct {
	Path     string // of the file
	Optional bool   // no file means no credentials, and no error

	// HelperDir is where helpers are; "" means PATH in Environ.
	HelperDir string

	// Environ is the environment of helpers, as "key=value"; nil means that
	// of this process.
	Environ []string

	// CacheDuration is how long an answer may be reused; 0 means not at all.
	CacheDuration time.Duration

	// Logger receives the steps (Info) and warnings; nil discards.
	Logger *slog.Logger
}

// Provider answers from a file. It is safe for concurrent use.
type Provider struct{ opts Options }

// New returns a Provider. Its error concerns opts alone: the file is read for
// each request.
func New(opts Options) (*Provider, error) {
	switch {
	case opts.Path == "":
		return nil, errors.New("--config is required, for example --config /etc/registry/config.json")
	case opts.CacheDuration < 0:
		return nil, fmt.Errorf("--cache-duration %v must not be negative; to disable caching, use 0s", opts.CacheDuration)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Provider{opts}, nil
}

// GetCredentials implements [plugin.Provider]. The answer is for the registry,
// or for the image alone if the file has entries for parts of the registry.
func (p *Provider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	registry := req.Registry()
	if registry == "" {
		return nil, fmt.Errorf("image %q does not begin with a registry host", req.Image)
	}
	resp, err := p.answer(ctx, registry, repository(req.Image))
	if err != nil {
		return nil, fmt.Errorf("registry %q: %w", registry, err)
	}
	duration := p.opts.CacheDuration
	if len(resp.Auth) == 0 {
		duration = min(duration, emptyCacheDuration)
	}
	resp.CacheDuration = &duration
	return resp, nil
}

func (p *Provider) answer(ctx context.Context, registry, repository string) (*plugin.Response, error) {
	file, err := p.read()
	switch {
	case err != nil:
		return nil, err
	case file == nil:
		return &plugin.Response{CacheKeyType: plugin.CacheRegistry}, nil
	}
	if name, server := file.Helper(registry); name != "" {
		return p.askHelper(ctx, registry, name, server)
	}
	resp := &plugin.Response{CacheKeyType: plugin.CacheRegistry}
	if file.HasPaths(registry) {
		resp.CacheKeyType = plugin.CacheImage
	}
	resp.Auth, err = p.usable(file.Find(repository))
	if err != nil {
		return nil, err
	}
	if len(resp.Auth) == 0 {
		p.opts.Logger.Warn("the docker config has no entry or credential helper for the registry, so the response is empty", "registry", registry, "file", p.opts.Path)
	}
	return resp, nil
}

// read reads the file anew. It returns nil if there is none and it is optional.
func (p *Provider) read() (*dockerconfig.File, error) {
	files, err := secretfile.Read(p.opts.Path)
	if err == nil {
		err = files[0].Private()
	}
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && p.opts.Optional:
		p.opts.Logger.Info("the file does not exist", "file", p.opts.Path)
		return nil, nil
	case missing:
		return nil, fmt.Errorf("read %w; fix --config, or set --optional if the file is not required", err)
	case err != nil:
		return nil, fmt.Errorf("read %w", err)
	}
	file, err := dockerconfig.ParseFile(files[0].Data)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", p.opts.Path, err)
	}
	return file, nil
}

// askHelper answers for the whole registry, since that is all a helper is told.
func (p *Provider) askHelper(ctx context.Context, registry, name, server string) (*plugin.Response, error) {
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
	case !kubeletCanUse(auth):
		return nil, fmt.Errorf("docker-credential-%s has %s for %q, %s", name, tokenKind(auth), excerpt.Address(server), tokenCure)
	}
	resp.Auth = map[string]plugin.AuthConfig{registry: {Username: auth.Username, Password: auth.Password}}
	return resp, nil
}

// usable returns what of the matches a kubelet can use. It is an error if
// there are some and it can use none.
func (p *Provider) usable(matches []dockerconfig.Match) (map[string]plugin.AuthConfig, error) {
	auths := map[string]plugin.AuthConfig{}
	var tokens []dockerconfig.Match
	for _, m := range matches {
		key := authKey(m.Scope)
		_, taken := auths[key]
		switch {
		case !kubeletCanUse(m.Auth):
			tokens = append(tokens, m)
		case !taken:
			p.opts.Logger.Info("using an entry", "entry", m.Key, "key", key)
			auths[key] = plugin.AuthConfig{Username: m.Auth.Username, Password: m.Auth.Password}
		}
	}
	for _, m := range tokens {
		if len(auths) == 0 {
			return nil, fmt.Errorf("read %q: auths[%q] has %s, %s", p.opts.Path, m.Key, tokenKind(m.Auth), tokenCure)
		}
		p.opts.Logger.Warn("skipped an entry that the kubelet cannot use", "entry", m.Key, "holds", tokenKind(m.Auth))
	}
	return auths, nil
}

const tokenCure = "which the kubelet cannot use; log in with a user name and a password or access token"

// kubeletCanUse reports whether a credential is more than a token that has to
// be exchanged, or sent by itself.
func kubeletCanUse(auth dockerconfig.Auth) bool {
	return !auth.Password.IsZero() || auth.IdentityToken.IsZero() && auth.RegistryToken.IsZero()
}

func tokenKind(auth dockerconfig.Auth) string {
	if !auth.IdentityToken.IsZero() {
		return "an identity token"
	}
	return "a registry token"
}

// authKey returns the key by which a kubelet finds the credential of a scope.
//
// kubelet: of a key's path, a first segment v1 or v2 is removed, so that the
// key of a namespace of that name would match nothing. Then it is the host,
// which matches: the answer is for this image alone.
func authKey(scope string) string {
	host, path, _ := strings.Cut(scope, "/")
	if strings.HasPrefix(path, "v1/") || strings.HasPrefix(path, "v2/") {
		return host
	}
	return scope
}

// repository returns an image without scheme, tag and digest. A kubelet sends
// none; a person who tries the plugin may.
func repository(image string) string {
	if _, after, found := strings.Cut(image, "://"); found {
		image = after
	}
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') && strings.Contains(image, "/") {
		image = image[:i]
	}
	return image
}
