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

// accessToken is a token of OAuth.
type accessToken struct {
	value plugin.Secret
	life  time.Duration // that is left; 0 is not known
}

// margin is how long before its end a token is given out for the last time:
// the pull that begins with it goes on for a while.
const margin = 5 * time.Minute

// cacheable is how long an answer with the token may be reused.
func (t accessToken) cacheable() time.Duration {
	return max(min(t.life/2, t.life-margin), 0).Truncate(time.Second)
}

var (
	errNotJSON = errors.New("the token response is not valid JSON")
	errNoToken = errors.New("the response has no access token")
	errExpired = errors.New("the access token in the response has already expired")
)

// maxLife bounds the life that is believed. Google's tokens live for an hour,
// at most for twelve.
const maxLife = 12 * time.Hour

// parseOAuth reads an answer of the metadata server or of STS (RFC 6749,
// section 5.1). Its errors hold nothing of it.
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

// parseImpersonated reads an answer of generateAccessToken, which says when
// the token ends by the clock of the endpoint.
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

// isPrintable reports whether s is one word of printable ASCII: nothing else
// can be a token (RFC 6749, appendix A.12).
func isPrintable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
