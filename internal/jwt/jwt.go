// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package jwt signs JSON Web Tokens (RFC 7519), and reads the claims of tokens without verifying
// them. Whoever holds a token needs to know its audience and expiry. The registry or cloud verifies
// the token.
//
//	claims, err := jwt.Parse(token)
//
// Errors contain no part of the token.
package jwt

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
)

// Claims holds the claims that the plugins use. Missing claims are zero.
type Claims struct {
	Issuer   string
	Subject  string // "system:serviceaccount:NAMESPACE:NAME" for a service account
	Audience []string
	IssuedAt time.Time
	Expires  time.Time
	Access   []Access // permissions in a registry's token; nil if absent
}

// Access is a permission in a registry's token (distribution specification,
// "Token Authentication Implementation").
type Access struct {
	Type    string   `json:"type"` // "repository"
	Name    string   `json:"name"`
	Actions []string `json:"actions"` // "pull"
}

// maxTokenSize limits the size of a token, in bytes.
const maxTokenSize = 64 << 10

var errNotJWT = errors.New("not a JSON Web Token")

// Parse parses the claims of a signed token in compact form.
func Parse(token string) (Claims, error) {
	if len(token) > maxTokenSize || strings.Count(token, ".") != 2 {
		return Claims{}, errNotJWT
	}
	parts := strings.Split(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return Claims{}, errNotJWT
	}
	var wire struct {
		Issuer   string        `json:"iss"`
		Subject  string        `json:"sub"`
		Audience audienceClaim `json:"aud"`
		IssuedAt numericDate   `json:"iat"`
		Expires  numericDate   `json:"exp"`
		Access   []Access      `json:"access"`
	}
	// Claim names are case-sensitive: a verifier does not treat "AUD" as "aud".
	if kjson.UnmarshalCaseSensitivePreserveInts(payload, &wire) != nil {
		return Claims{}, errNotJWT
	}
	return Claims{wire.Issuer, wire.Subject, wire.Audience, wire.IssuedAt.Time, wire.Expires.Time, wire.Access}, nil
}

// ServiceAccount returns the namespace and name of the token's service account. ok is false if the
// token belongs to no service account.
func (c Claims) ServiceAccount() (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(c.Subject, "system:serviceaccount:")
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	return namespace, name, ok && namespace != "" && name != ""
}

// APIServerAudience returns an audience of the token that the cluster's API server accepts, or "".
// The recipient of such a token can act as its subject. Such an audience is the issuer, which is
// the default of --api-audiences, or the API server's name in the cluster, as on EKS.
func (c Claims) APIServerAudience() string {
	for _, audience := range c.Audience {
		host, _, _ := strings.Cut(strings.TrimPrefix(audience, "https://"), "/")
		host, _, _ = strings.Cut(host, ":")
		if audience != "" && audience == c.Issuer || host == "kubernetes.default" || strings.HasPrefix(host+".", "kubernetes.default.svc.") {
			return audience
		}
	}
	return ""
}

// LacksAudience reports whether this is a service account token without an audience. Tokens in
// Secrets have no audience, and the API server accepts them.
func (c Claims) LacksAudience() bool {
	_, _, ok := c.ServiceAccount()
	return ok && len(c.Audience) == 0
}

// audienceClaim is a string or a list of strings (RFC 7519, section 4.1.3).
type audienceClaim []string

func (a *audienceClaim) UnmarshalJSON(data []byte) error {
	var one *string
	if json.Unmarshal(data, &one) == nil {
		if one != nil {
			*a = audienceClaim{*one}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// numericDate is a number of seconds since 1970, with or without a fraction (RFC 7519,
// section 2, NumericDate).
type numericDate struct{ time.Time }

// maxUnixSeconds is the last second of the year 9999.
const maxUnixSeconds = 253402300799

func (t *numericDate) UnmarshalJSON(data []byte) error {
	var seconds *float64
	if err := json.Unmarshal(data, &seconds); err != nil || seconds == nil {
		return err
	}
	if *seconds < 0 || *seconds > maxUnixSeconds {
		return errNotJWT
	}
	whole, fraction := math.Modf(*seconds)
	t.Time = time.Unix(int64(whole), int64(fraction*1e9))
	return nil
}
