// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/plugin"
)

// session is the work on one request. What it reads or asks, it reads or asks
// once.
type session struct {
	*Provider
	req       *plugin.Request
	rules     hostRules // the provider's, and those of a cloud of its own
	client    remote.Client
	transport *http.Transport // our own, to be closed; nil if it was given

	cfg *config
	env *environment
}

func (p *Provider) newSession(req *plugin.Request) *session {
	s := &session{Provider: p, req: req, rules: p.rules}
	s.client = remote.Client{
		Transport: p.opts.Transport, UserAgent: userAgent,
		Timeout: p.opts.Timeout, Backoff: p.opts.Backoff,
	}
	if s.client.Transport == nil {
		s.transport = remote.NewTransport()
		s.client.Transport = s.transport
	}
	return s
}

func (s *session) close() {
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
}

// userAgent is that of upstream, by which registries know it in their logs.
const userAgent = "kubernetes-credentialprovider-acr"

func (s *session) config() (*config, error) {
	if s.cfg == nil {
		cfg, err := readConfig(s.opts.ConfigFile)
		if err != nil {
			return nil, err
		}
		s.cfg = cfg
	}
	return s.cfg, nil
}

// tokenUserAgent is what Microsoft Entra ID and metadata servers are told.
func (s *session) tokenUserAgent() string {
	if s.cfg != nil && s.cfg.UserAgent != "" {
		return s.cfg.UserAgent
	}
	return userAgent
}

// registry looks the host up. Only for a host that is none in the public
// clouds is anything read, and only for a cloud with a resource manager of its
// own is anything asked, without a credential: what its registries are called.
func (s *session) registry(ctx context.Context, host string) (registry, bool, error) {
	if reg, ok := s.rules.find(host); ok || host == "" {
		return reg, ok, nil
	}
	if _, err := s.config(); err != nil && s.environmentFile() == "" {
		// The host is foreign to every cloud but one that would be described
		// in the very file that cannot be read.
		s.opts.Log.Warn("the cloud configuration cannot be read, so the registries of a cloud of its own are not known", "error", err)
		return registry{}, false, nil
	}
	env, err := s.environment(ctx)
	if err != nil {
		return registry{}, false, err
	}
	s.rules = s.rules.withSuffix(env.suffix)
	reg, ok := s.rules.find(host)
	return reg, ok, nil
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
		s.opts.Log.Warn("the refresh token does not say when it ends, so the answer is not cached")
		return 0
	}
	left := claims.Expires.Sub(s.opts.Now())
	if !claims.IssuedAt.IsZero() {
		left = min(left, claims.Expires.Sub(claims.IssuedAt))
	}
	return max(min(left/2, maxCache), 0).Truncate(time.Second)
}

// hint adds what the operator can do.
func hint(err error, what string) error { return fmt.Errorf("%w; %s", err, what) }

// unreachable is what to do if an endpoint in the cloud gave no answer.
const unreachable = "check that the node reaches it, directly or through HTTPS_PROXY"

// entraHint is hint for what Microsoft Entra ID refused. If nothing came from
// there at all, the identity is not at fault.
func entraHint(err error, what string) error {
	if failed, ok := errors.AsType[*remote.Error](err); ok && failed.Status == 0 {
		what = unreachable
	}
	return hint(err, what)
}
