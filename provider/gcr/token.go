// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/regcred/regcred/plugin"
)

// accessToken is an OAuth access token.
type accessToken struct {
	value    plugin.Secret
	lifetime time.Duration // remaining lifetime; 0 means unknown
}

// expiryMargin is subtracted from a token's lifetime, because the pull takes time.
const expiryMargin = 5 * time.Minute

// cacheDuration returns how long a response with the token may be cached.
func (t accessToken) cacheDuration() time.Duration {
	return max(min(t.lifetime/2, t.lifetime-expiryMargin), 0).Truncate(time.Second)
}

var (
	errNotJSON = errors.New("the token response is not valid JSON")
	errNoToken = errors.New("the response has no access token")
	errExpired = errors.New("the access token in the response has already expired")
)

// maxTokenLifetime limits a token's lifetime. Google's tokens are usually valid for one hour, and
// at most for twelve hours.
const maxTokenLifetime = 12 * time.Hour

// parseOAuthToken parses a response from the metadata server or STS (RFC 6749, section 5.1).
// Errors contain no part of the response.
func parseOAuthToken(body []byte) (accessToken, error) {
	var answer struct {
		AccessToken string      `json:"access_token"`
		ExpiresIn   json.Number `json:"expires_in"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return accessToken{}, errNotJSON
	}
	life := time.Duration(0)
	if answer.ExpiresIn != "" {
		seconds, err := answer.ExpiresIn.Float64()
		if err == nil && seconds <= 0 {
			return accessToken{}, errExpired
		}
		if err == nil {
			life = time.Duration(min(seconds, maxTokenLifetime.Seconds()) * float64(time.Second))
		}
	}
	return newAccessToken(answer.AccessToken, life)
}

// parseImpersonatedToken parses a generateAccessToken response. now is the time on the endpoint's
// clock.
func parseImpersonatedToken(body []byte, now time.Time) (accessToken, error) {
	var answer struct {
		AccessToken string `json:"accessToken"`
		ExpireTime  string `json:"expireTime"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return accessToken{}, errNotJSON
	}
	life := time.Duration(0)
	if end, err := time.Parse(time.RFC3339, answer.ExpireTime); err == nil {
		if life = end.Sub(now); life <= 0 {
			return accessToken{}, errExpired
		}
	}
	return newAccessToken(answer.AccessToken, min(life, maxTokenLifetime))
}

func newAccessToken(value string, life time.Duration) (accessToken, error) {
	if !isPrintableASCII(value) {
		return accessToken{}, errNoToken
	}
	return accessToken{plugin.NewSecret(value), life}, nil
}

// isPrintableASCII reports whether s is printable ASCII without spaces, as tokens
// are (RFC 6749, appendix A.12).
func isPrintableASCII(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
