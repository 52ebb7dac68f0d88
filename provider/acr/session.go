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

// session handles one request. It reads each file once and queries each endpoint once.
type session struct {
	opts       *Options
	req        *plugin.Request
	rules      hostRules // includes the custom cloud's registries
	arc        arcAgent
	client     remote.Client
	transports []*remote.Transport // closed at the end

	cfg *config
	env *cloudEnvironment
}

// newTransport returns a transport that is closed with the session.
func (s *session) newTransport(base *http.Transport) *remote.Transport {
	t := remote.WrapTransport(base)
	s.transports = append(s.transports, t)
	return t
}

func (s *session) close() {
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
}

// userAgent is the upstream plugin's user agent. Registries log it.
const userAgent = "kubernetes-credentialprovider-acr"

func (s *session) loadConfig() (*config, error) {
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

// tokenUserAgent is the user agent sent to Microsoft Entra ID and metadata servers.
func (s *session) tokenUserAgent() string {
	if s.cfg != nil && s.cfg.UserAgent != "" {
		return s.cfg.UserAgent
	}
	return userAgent
}

// addHint adds a fix to err. It returns nil and unknown CA errors unchanged, because the latter
// already contain a fix.
func addHint(err error, what string) error {
	if _, ok := errors.AsType[*remote.UnknownCAError](err); ok || err == nil {
		return err
	}
	return fmt.Errorf("%w; %s", err, what)
}

// unreachableFix is the fix for a cloud endpoint that sends no response.
const unreachableFix = "check that the node can reach the endpoint, directly or through HTTPS_PROXY"

// addEntraHint adds a fix to an error from Microsoft Entra ID. If there was no response, the fix is
// about the network instead of the identity.
func addEntraHint(err error, what string) error {
	if isNoResponse(err) {
		what = unreachableFix
	}
	return addHint(err, what)
}

// isNoResponse reports whether an endpoint sent no response.
func isNoResponse(err error) bool {
	failed, ok := errors.AsType[*remote.Error](err)
	return ok && failed.Status == 0
}
