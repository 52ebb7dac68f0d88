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

const challengeStep = "get the registry's authentication challenge"

// startChallenge requests the registry's challenge in the background. wait returns the response.
// The caller must call stop.
func (s *session) startChallenge(ctx context.Context, reg acrHost) (wait func() (*remote.Response, error), stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	client := s.client // copied, because the session is not safe for concurrent use
	done := make(chan struct{})
	var answer *remote.Response
	var err error
	go func() {
		defer close(done)
		answer, err = client.Do(ctx, remote.Call{
			Step: challengeStep, URL: "https://" + reg.server + "/v2/", AcceptStatuses: []int{http.StatusUnauthorized, http.StatusOK},
		})
	}()
	wait = func() (*remote.Response, error) {
		<-done
		return answer, err
	}
	return wait, func() {
		cancel()
		<-done
	}
}

// waitForChallenge waits for the registry's challenge, and returns the URL and service for the
// exchange.
func (s *session) waitForChallenge(ctx context.Context, reg acrHost, wait func() (*remote.Response, error)) (address, service string, err error) {
	answer, err := wait()
	if err != nil {
		return "", "", addHint(err, "check the registry name, and check that the node can reach the registry")
	}
	if reg.suffix == "" {
		// An allowed host may be a front end for a registry in a custom cloud.
		env, err := s.loadEnvironment(ctx)
		if err != nil {
			return "", "", err
		}
		s.rules = s.rules.withSuffix(env.suffix)
	}
	address, service, err = s.rules.readChallenge(reg, answer.Header.Values("WWW-Authenticate"))
	if err != nil {
		return "", "", fmt.Errorf("%s: GET https://%s/v2/: status %d: %w", challengeStep, reg.server, answer.Status, err)
	}
	s.opts.Logger.Info("the registry responded", "endpoint", address, "service", service)
	return address, service, nil
}

// readChallenge returns the exchange URL and the service of the Bearer challenge.
func (r hostRules) readChallenge(reg acrHost, lines []string) (address, service string, err error) {
	for _, c := range parseChallenges(lines) {
		if c.scheme != "bearer" {
			continue
		}
		if service = c.params["service"]; service == "" {
			return "", "", errors.New("the Bearer challenge has no service parameter")
		}
		address, err = r.exchangeURL(reg, c.params["realm"])
		return address, service, err
	}
	return "", "", errors.New("the registry did not send the Bearer challenge that an Azure container registry sends")
}

// exchangeToken exchanges the access token for the registry's refresh token.
func (s *session) exchangeToken(ctx context.Context, reg acrHost, wait func() (*remote.Response, error), tenant, token string) (string, error) {
	address, service, err := s.waitForChallenge(ctx, reg, wait)
	if err != nil {
		return "", err
	}
	form := url.Values{
		"grant_type":    {"access_token_refresh_token"},
		"service":       {service},
		"access_token":  {token},
		"refresh_token": {token}, // the upstream plugin sends it, too
	}
	if tenant != "" {
		form.Set("tenant", tenant)
	}
	const step = "exchange the token"
	answer, err := s.client.Do(ctx, remote.Call{Step: step, URL: address, Form: form})
	if err != nil {
		return "", addHint(err, "check that the identity has the AcrPull or Container Registry Repository Reader role on the registry")
	}
	refresh, err := parseToken(answer.Body, "refresh_token")
	if err != nil {
		return "", fmt.Errorf("%s: POST %s: %w", step, address, err)
	}
	s.opts.Logger.Debug("exchanged the token", "endpoint", address, "request", answer.Header.Get("X-Ms-Correlation-Request-Id"))
	return refresh, nil
}
