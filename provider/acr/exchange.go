// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/regcred/regcred/internal/remote"
)

// exchange trades the access token for a refresh token of the registry.
func (s *session) exchange(ctx context.Context, reg registry, tenant, token string) (string, error) {
	address, service, err := s.challenge(ctx, reg)
	if err != nil {
		return "", err
	}
	return s.refresh(ctx, address, service, tenant, token)
}

// challenge asks the registry where it wants to be given the token, and under
// which name.
func (s *session) challenge(ctx context.Context, reg registry) (address, service string, err error) {
	const step = "ask the registry how to log in"
	answer, err := s.client.Do(ctx, remote.Call{
		Step: step, URL: "https://" + reg.server + "/v2/", Accept: []int{http.StatusUnauthorized, http.StatusOK},
	})
	if err != nil {
		return "", "", hint(err, "check the name of the registry, and that the node reaches it")
	}
	if reg.suffix == "" {
		// What a host that was allowed by name stands before may be in a cloud of its own.
		env, err := s.environment(ctx)
		if err != nil {
			return "", "", err
		}
		s.rules = s.rules.withSuffix(env.suffix)
	}
	address, service, err = s.rules.readChallenge(reg, answer.Header.Values("WWW-Authenticate"))
	if err != nil {
		return "", "", fmt.Errorf("%s: GET https://%s/v2/: status %d: %w", step, reg.server, answer.Status, err)
	}
	s.opts.Log.Info("the registry answered", "endpoint", address, "service", service)
	return address, service, nil
}

// readChallenge finds out where to exchange the token, and for which service.
func (r hostRules) readChallenge(reg registry, lines []string) (address, service string, err error) {
	for _, c := range parseChallenges(lines) {
		if c.scheme != "bearer" {
			continue
		}
		if service = c.params["service"]; service == "" {
			return "", "", errors.New("its Bearer challenge names no service")
		}
		address, err = r.exchangeURL(reg, c.params["realm"])
		return address, service, err
	}
	return "", "", errors.New("it sent no Bearer challenge, as Azure container registries do")
}

func (s *session) refresh(ctx context.Context, address, service, tenant, token string) (string, error) {
	form := url.Values{
		"grant_type":    {"access_token_refresh_token"},
		"service":       {service},
		"access_token":  {token},
		"refresh_token": {token}, // upstream sends both
	}
	if tenant != "" {
		form.Set("tenant", tenant)
	}
	const step = "exchange the token"
	answer, err := s.client.Do(ctx, remote.Call{Step: step, URL: address, Form: form})
	if err != nil {
		return "", hint(err, "check that the identity has the role AcrPull, or Container Registry Repository Reader, on the registry")
	}
	refresh, err := parseMember(answer.Body, "refresh_token")
	if err != nil {
		return "", fmt.Errorf("%s: POST %s: %w", step, address, err)
	}
	s.opts.Log.Debug("the token was exchanged", "endpoint", address, "request", answer.Header.Get("X-Ms-Correlation-Request-Id"))
	return refresh, nil
}
