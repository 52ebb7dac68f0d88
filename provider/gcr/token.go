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
	value plugin.Secret
	life  time.Duration // remaining lifetime; 0 means unknown
}

// margin is subtracted from a token's lifetime, because the pull takes time.
const margin = 5 * time.Minute

// cacheable returns how long a response with the token may be cached.
func (t accessToken) cacheable() time.Duration {
	return max(min(t.life/2, t.life-margin), 0).Truncate(time.Second)
}

var (
	errNotJSON = errors.New("the token response is not valid JSON")
	errNoToken = errors.New("the response has no access token")
	errExpired = errors.New("the access token in the response has already expired")
)

// maxLife limits the lifetime. Google's tokens are usually valid for one hour, and for
// twelve hours at most.
const maxLife = 12 * time.Hour

// parseOAuth parses a response from the metadata server or STS (RFC 6749, section 5.1).
// Errors contain no part of the response.
func parseOAuth(body []byte) (accessToken, error) {
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
			life = time.Duration(min(seconds, maxLife.Seconds()) * float64(time.Second))
		}
	}
	return newToken(answer.AccessToken, life)
}

// parseImpersonated parses a generateAccessToken response. Its expiry is a time on the
// endpoint's clock.
func parseImpersonated(body []byte, now time.Time) (accessToken, error) {
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
	return newToken(answer.AccessToken, min(life, maxLife))
}

func newToken(value string, life time.Duration) (accessToken, error) {
	if !isPrintable(value) {
		return accessToken{}, errNoToken
	}
	return accessToken{plugin.NewSecret(value), life}, nil
}

// isPrintable reports whether s is printable ASCII without spaces, as tokens
// are (RFC 6749, appendix A.12).
func isPrintable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
