// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/regcred/regcred/internal/jwt"
)

const (
	// unknownLifetime is assumed if neither the response nor the credential states an expiry.
	unknownLifetime = 10 * time.Minute

	// A credential is refreshed at least every maxRefresh, so that a rotated password is noticed,
	// and at most every minRefresh.
	maxRefresh = 12 * time.Hour
	minRefresh = 5 * time.Second

	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
)

// credentialExpiry returns the expiry that a password itself states: a JSON Web Token, as issued by
// Azure and many registries, or a password of Amazon ECR. It is zero for any other password.
func credentialExpiry(password string) time.Time {
	if claims, err := jwt.Parse(password); err == nil {
		return claims.Expires
	}
	if len(password) > 64<<10 {
		return time.Time{}
	}
	data, err := base64.StdEncoding.DecodeString(password)
	if err != nil {
		return time.Time{}
	}
	var ecr struct {
		Payload    string `json:"payload"`
		Expiration int64  `json:"expiration"`
	}
	if json.Unmarshal(data, &ecr) != nil || ecr.Payload == "" || ecr.Expiration <= 0 {
		return time.Time{}
	}
	return time.Unix(ecr.Expiration, 0)
}

// refreshTime returns when to replace a credential: after about 60 % of its life. spread is a random
// number from 0 to 1, which is the same for all credentials of a round.
func refreshTime(issued, expires time.Time, spread float64) time.Time {
	life := unknownLifetime
	if !expires.IsZero() {
		life = expires.Sub(issued)
	}
	after := time.Duration(float64(life) * (0.6 - 0.06*spread))
	return issued.Add(min(max(after, minRefresh), maxRefresh))
}

// backoffDelay returns the delay after a number of failures in succession, with jitter.
func backoffDelay(failures int) time.Duration {
	d := maxBackoff
	if failures < 10 {
		d = min(minBackoff<<max(failures-1, 0), maxBackoff)
	}
	return d - rand.N(d/4+1)
}
