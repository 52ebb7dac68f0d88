// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/plugin"
)

// missingTokenError returns the error for a request without a token.
func missingTokenError(apiVersion string) error {
	if apiVersion != "" && apiVersion != plugin.V1 {
		return fmt.Errorf("no service-account token: %s does not support it; set the provider's apiVersion to %s, and set tokenAttributes", apiVersion, plugin.V1)
	}
	return errors.New("no service-account token in the request; set tokenAttributes in the provider's configuration, and use kubelet 1.34 or newer " +
		"(or 1.33 with the feature gate KubeletServiceAccountTokenForCredentialProviders); for pods without a service account, " +
		"set --optional to return no credential, or --token-file to use another token")
}

// requestToken returns the request's token. If the request has no token, it returns the token from
// Options.TokenFile.
func (p *Provider) requestToken(req *plugin.Request) (t inputToken, err error) {
	t.text = req.ServiceAccountToken.Reveal()
	if t.text != "" || p.opts.TokenFile == "" {
		return t, nil
	}
	t.path = p.opts.TokenFile
	t.text, err = readSecretFile(p.opts.TokenFile)
	if err == nil && strings.ContainsFunc(t.text, isInvalidTokenRune) {
		err = fmt.Errorf("read %q: not a token; remove spaces, quotes and any prefix before the token", p.opts.TokenFile)
	}
	return t, err
}

// isInvalidTokenRune reports whether a character is not allowed in a bearer token (RFC
// 6750, section 2.1).
func isInvalidTokenRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~+/=", r)
}

// checkClaims parses the token's claims and returns an error if the registry would reject the
// token, because the registry would return only a 401. A token that is not a JWT has no claims.
func (p *Provider) checkClaims(t *inputToken) (err error) {
	t.claims, err = jwt.Parse(t.text)
	if err != nil {
		if p.opts.Audience != "" {
			return fmt.Errorf("check the audience of %v: %w", t, err)
		}
		p.opts.Logger.Info("cannot parse the token", "token", t.String(), "cause", err)
		return nil
	}
	claims, now := t.claims, p.opts.Now()
	if audience := claims.APIServerAudience(); audience != "" && p.sendsToken {
		return fmt.Errorf("%v has the API server's audience, %q, so the recipient of the token can act as %q; set serviceAccountTokenAudience to the registry's audience", t, audience, claims.Subject)
	}
	if claims.LacksAudience() && p.sendsToken {
		return fmt.Errorf("%v has no audience, so the API server accepts it, and its recipient can act as %q; use a token with the registry's audience, "+
			"not a service-account Secret", t, claims.Subject)
	}
	if p.opts.Audience != "" && !slices.Contains(claims.Audience, p.opts.Audience) {
		wrong := "check serviceAccountTokenAudience and the plugin's audience"
		if t.path != "" {
			wrong = "check the file and the plugin's audience"
		}
		return fmt.Errorf("%v has the audience %q, not %q; %s", t, claims.Audience, p.opts.Audience, wrong)
	}
	if !claims.Expires.IsZero() && !now.Before(claims.Expires) {
		return fmt.Errorf("%v expired %v ago, at %s; check the node's clock, which shows %s",
			t, now.Sub(claims.Expires).Round(time.Second), claims.Expires.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// describeClaims describes the token in the error of an endpoint that rejected it.
func describeClaims(c jwt.Claims) string {
	if c.Subject == "" && c.Issuer == "" {
		return "the token is not a JSON Web Token"
	}
	return fmt.Sprintf("check that the endpoint trusts the token's subject %q, audience %q and issuer %q", c.Subject, c.Audience, c.Issuer)
}

const (
	// minRemainingLifetime is the minimum remaining lifetime of a cached credential, because the
	// pull takes time.
	minRemainingLifetime = time.Minute

	// maxCacheDuration limits the cache duration.
	maxCacheDuration = 24 * time.Hour
)

// responseCacheDuration returns how long to cache a response. This is half of the remaining
// lifetime and at most one day. It never includes the last minute of the lifetime.
func (p *Provider) responseCacheDuration(expires time.Time) *time.Duration {
	if expires.IsZero() {
		return new(*cmp.Or(p.opts.CacheDuration, new(time.Duration(0))))
	}
	left := expires.Sub(p.opts.Now())
	d := max(min(left/2, left-minRemainingLifetime, maxCacheDuration), 0).Truncate(time.Second)
	if p.opts.CacheDuration != nil {
		d = min(d, *p.opts.CacheDuration)
	}
	return &d
}

// expandUsername returns the user name. It returns "" if the user name comes from the response.
func (p *Provider) expandUsername(v placeholderValues) (string, error) {
	if p.username == nil {
		return "", nil
	}
	username, err := p.username.expandWith(v, noEscape)
	if err == nil {
		err = checkUsername(username)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.opts.fieldName("username"), err)
	}
	return username, nil
}

// checkUsername rejects user names that are invalid in HTTP Basic authentication (RFC 7617, section
// 2). Text after a colon would be parsed as the password.
func checkUsername(name string) error {
	switch {
	case name == "":
		return errors.New("the user name is empty")
	case strings.ContainsFunc(name, isControl):
		return errors.New("the user name contains a control character")
	case strings.Contains(name, ":"):
		return errors.New("the user name contains a colon, which HTTP Basic authentication does not allow")
	}
	return nil
}
