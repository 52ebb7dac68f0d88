// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/lint/internal/rules"
)

// minLifetime is the remaining lifetime that is not reported.
const minLifetime = 7 * 24 * time.Hour

const renew = "create a new token, or use a credential provider"

// lifetime describes when a password expires.
type lifetime struct {
	what string // such as "an Amazon ECR token"
	ends time.Time
	span string // usual validity, for tokens without an expiry
}

// lifetimeOf recognizes tokens that expire.
func lifetimeOf(user, password string) (l lifetime, ok bool) {
	password = strings.TrimSpace(password)
	switch {
	case password == "":
	case user == "AWS":
		var token struct{ Expiration int64 }
		data, err := base64.StdEncoding.DecodeString(password)
		if err == nil && json.Unmarshal(data, &token) == nil && token.Expiration > 0 {
			return lifetime{what: "an Amazon ECR token", ends: time.Unix(token.Expiration, 0)}, true
		}
		return lifetime{what: "an Amazon ECR token", span: "12 hours"}, true
	case user == "oauth2accesstoken" || strings.HasPrefix(password, "ya29."):
		return lifetime{what: "a Google access token", span: "an hour"}, true
	case strings.HasPrefix(password, "ghs_"):
		return lifetime{what: "a GitHub job or app token", span: "an hour or the job's duration"}, true
	case user == "gitlab-ci-token":
		return lifetime{what: "a GitLab job token", span: "the job's duration"}, true
	}
	if claims, err := jwt.Parse(password); err == nil && !claims.Expires.IsZero() {
		return lifetime{what: "a JSON Web Token", ends: claims.Expires}, true
	}
	return lifetime{}, false
}

// date formats a time in UTC, to the second.
func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func checkExpired(e *entry) []rules.Result {
	l, ok := lifetimeOf(e.user, e.password)
	if !ok || l.ends.IsZero() || l.ends.After(e.config.now) {
		return nil
	}
	return e.result("password", renew, "the password for %s is %s that expired at %s", e.shown(), l.what, date(l.ends))
}

func checkExpires(e *entry) []rules.Result {
	l, ok := lifetimeOf(e.user, e.password)
	switch {
	case !ok || e.config.live || !l.ends.IsZero() && (!l.ends.After(e.config.now) || l.ends.After(e.config.now.Add(minLifetime))):
		return nil
	case l.ends.IsZero():
		return e.result("password", renew, "the password for %s is %s, which is valid for %s and is not renewed", e.shown(), l.what, l.span)
	}
	return e.result("password", renew, "the password for %s is %s that expires at %s and is not renewed", e.shown(), l.what, date(l.ends))
}
