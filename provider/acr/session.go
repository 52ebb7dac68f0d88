// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/plugin"
)

// session is the work on one request. What it reads or asks, it reads or asks
// once.
type session struct {
	opts       *Options
	req        *plugin.Request
	rules      hostRules // the provider's, and those of a cloud of its own
	arc        arcAgent
	client     remote.Client
	transports []*remote.Transport // our own, to be closed

	cfg *config
	env *environment
}

// own makes a transport that is closed with the session.
func (s *session) own(base *http.Transport) *remote.Transport {
	t := remote.Wrap(base)
	s.transports = append(s.transports, t)
	return t
}

func (s *session) close() {
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
}

// userAgent is that of upstream, by which registries know it in their logs.
const userAgent = "kubernetes-credentialprovider-acr"

func (s *session) config() (*config, error) {
	if s.opts.pod != nil {
		return &s.opts.pod.config, nil
	}
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

// hint adds what the operator can do, unless the error says that itself.
func hint(err error, what string) error {
	if _, ok := errors.AsType[*remote.AuthorityError](err); ok {
		return err
	}
	return fmt.Errorf("%w; %s", err, what)
}

// unreachable is what to do if an endpoint in the cloud gave no answer.
const unreachable = "check that the node can reach the endpoint, directly or through HTTPS_PROXY"

// entraHint is hint for what Microsoft Entra ID refused. If nothing came from
// there at all, the identity is not at fault.
func entraHint(err error, what string) error {
	if isSilence(err) {
		what = unreachable
	}
	return hint(err, what)
}

// isSilence reports whether an endpoint gave no answer at all.
func isSilence(err error) bool {
	failed, ok := errors.AsType[*remote.Error](err)
	return ok && failed.Status == 0
}
