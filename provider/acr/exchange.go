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

// exchangeToken exchanges the access token for the registry's refresh token.
func (s *session) exchangeToken(ctx context.Context, reg acrHost, asked *pendingChallenge, tenant, token string) (string, error) {
	address, service, err := s.waitForChallenge(ctx, reg, asked)
	if err != nil {
		return "", err
	}
	return s.requestRefreshToken(ctx, address, service, tenant, token)
}

// pendingChallenge is a challenge request in progress.
type pendingChallenge struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the challenge or err is set
	answer *remote.Response
	err    error
}

const challengeStep = "get the registry's authentication challenge"

// startChallenge starts the challenge request. The caller must call end.
func (s *session) startChallenge(ctx context.Context, reg acrHost) *pendingChallenge {
	ctx, cancel := context.WithCancel(ctx)
	a := &pendingChallenge{cancel: cancel, done: make(chan struct{})}
	client := s.client // the session is not safe for concurrent use
	go func() {
		defer close(a.done)
		a.answer, a.err = client.Do(ctx, remote.Call{
			Step: challengeStep, URL: "https://" + reg.server + "/v2/", Accept: []int{http.StatusUnauthorized, http.StatusOK},
		})
	}()
	return a
}

// stop cancels the request.
func (a *pendingChallenge) stop() {
	a.cancel()
	<-a.done
}

// waitForChallenge returns the URL and service name for the exchange, based on the registry's
// challenge.
func (s *session) waitForChallenge(ctx context.Context, reg acrHost, asked *pendingChallenge) (address, service string, err error) {
	<-asked.done
	answer, err := asked.answer, asked.err
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

// readChallenge returns the URL and service in the challenge.
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

func (s *session) requestRefreshToken(ctx context.Context, address, service, tenant, token string) (string, error) {
	form := url.Values{
		"grant_type":    {"access_token_refresh_token"},
		"service":       {service},
		"access_token":  {token},
		"refresh_token": {token}, // as in the upstream plugin
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
