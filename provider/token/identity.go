// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/plugin"
)

// missingToken says why a request may have no token.
func missingToken(apiVersion string) error {
	if apiVersion != "" && apiVersion != plugin.V1 {
		return fmt.Errorf("no service-account token: requests in %s have none; set the provider's apiVersion to %s, and its tokenAttributes", apiVersion, plugin.V1)
	}
	return errors.New("no service-account token in the request: the provider's configuration needs tokenAttributes, and the kubelet must be 1.34 or newer " +
		"(1.33 with the feature gate KubeletServiceAccountTokenForCredentialProviders); where requireServiceAccount is false, " +
		"--optional answers pods without a service account with no credentials")
}

// identify reads the claims of the token, and checks what the registry would
// refuse with no more than a 401. A token that is not a JWT has none.
func (p *Provider) identify(token string) (jwt.Claims, error) {
	claims, err := jwt.Parse(token)
	if err != nil {
		if p.audience != "" {
			return claims, fmt.Errorf("the audience of the service-account token cannot be checked: %w", err)
		}
		p.log.Info("the service-account token cannot be read", "cause", err)
		return claims, nil
	}
	if p.audience != "" && !slices.Contains(claims.Audience, p.audience) {
		return claims, fmt.Errorf("the service-account token is for the audience %q, not %q: one of serviceAccountTokenAudience and the plugin's audience is wrong",
			claims.Audience, p.audience)
	}
	now := p.now()
	if !claims.Expires.IsZero() && !now.Before(claims.Expires) {
		return claims, fmt.Errorf("the service-account token expired %v ago, at %s: check the clock of this node, which says %s",
			now.Sub(claims.Expires).Round(time.Second), claims.Expires.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return claims, nil
}

// describe says whose token it is, for the error of an endpoint that does not
// want it.
func describe(c jwt.Claims) string {
	if c.Subject == "" && c.Issuer == "" {
		return "the token is not a JSON Web Token"
	}
	return fmt.Sprintf("the token is of subject %q, for audience %q, from issuer %q: does the endpoint trust these?", c.Subject, c.Audience, c.Issuer)
}

const (
	// margin is what an answer must live longer than it is reused: a pull that
	// begins with it takes a while.
	margin = time.Minute

	// maxLifetime bounds the reuse of what lives for years.
	maxLifetime = 24 * time.Hour
)

// lifetime is how long an answer that expires then may be reused: for half of
// its life, never into its last minute, and for a day at most.
func (p *Provider) lifetime(expires time.Time) *time.Duration {
	if expires.IsZero() {
		if p.cacheDuration == nil {
			return new(time.Duration(0))
		}
		return new(*p.cacheDuration)
	}
	left := expires.Sub(p.now())
	d := max(min(left/2, left-margin, maxLifetime), 0).Truncate(time.Second)
	if p.cacheDuration != nil {
		d = min(d, *p.cacheDuration)
	}
	return &d
}
