// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/must"
)

// tokenVerifier verifies that a token belongs to a service account of a cluster, like a
// registry that trusts the cluster's keys.
type tokenVerifier struct {
	key    *rsa.PublicKey
	issuer string
}

// verifyToken returns the claims of a token. It returns an error if the token is not valid for audience
// at the time now.
func (v tokenVerifier) verifyToken(token, audience string, now time.Time) (jwt.Claims, error) {
	claims, err := jwt.Parse(token)
	if err != nil {
		return jwt.Claims{}, err
	}
	switch {
	case !v.hasValidSignature(token):
		return jwt.Claims{}, errors.New("it is not signed by the cluster")
	case claims.Issuer != v.issuer:
		return jwt.Claims{}, fmt.Errorf("its issuer is %q, not %q", claims.Issuer, v.issuer)
	case !slices.Contains(claims.Audience, audience):
		return jwt.Claims{}, fmt.Errorf("it is for the audience %q, not %q", claims.Audience, audience)
	case !now.Before(claims.Expires):
		return jwt.Claims{}, errors.New("it has expired")
	}
	return claims, nil
}

// hasValidSignature reports whether the cluster's key signed a token with RS256.
func (v tokenVerifier) hasValidSignature(token string) bool {
	parts := strings.Split(token, ".")
	header, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil {
		return false
	}
	var h struct{ Alg string }
	if json.Unmarshal(header, &h) != nil || h.Alg != "RS256" {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return rsa.VerifyPKCS1v15(v.key, crypto.SHA256, sum[:], signature) == nil
}

// signToken returns a signed token with the given header and payload.
func signToken(t *testing.T, key *rsa.PrivateKey, header, payload string) string {
	t.Helper()
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	sum := sha256.Sum256([]byte(text))
	signature := must.Get(rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]))(t)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// TestVerifier verifies that the tests' registry rejects every token that a real registry would
// reject.
func TestVerifier(t *testing.T) {
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	other := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	now := time.Unix(1_800_000_000, 0)
	const rs256 = `{"alg":"RS256"}`
	payload := func(change ...string) string {
		text := `{"iss":"https://cluster","sub":"system:serviceaccount:team:app","aud":["registry.example"],"exp":1800000001}`
		return strings.NewReplacer(change...).Replace(text)
	}
	good := signToken(t, key, rs256, payload())
	parts := strings.Split(good, ".")
	for name, tt := range map[string]struct{ token, want string }{
		"good":          {good, ""},
		"other key":     {signToken(t, other, rs256, payload()), "it is not signed by the cluster"},
		"other payload": {parts[0] + "." + strings.Split(signToken(t, other, rs256, payload("team", "mate")), ".")[1] + "." + parts[2], "it is not signed by the cluster"},
		"no signature":  {parts[0] + "." + parts[1] + ".", "it is not signed by the cluster"},
		"not encoded":   {parts[0] + "." + parts[1] + ".?", "it is not signed by the cluster"},
		"algorithm":     {signToken(t, key, `{"alg":"none"}`, payload()), "it is not signed by the cluster"},
		"issuer":        {signToken(t, key, rs256, payload("https://cluster", "https://else")), `its issuer is "https://else", not "https://cluster"`},
		"audience":      {signToken(t, key, rs256, payload("registry.example", "else.example")), `it is for the audience ["else.example"], not "registry.example"`},
		"expired":       {signToken(t, key, rs256, payload("1800000001", "1800000000")), "it has expired"},
		"no expiry":     {signToken(t, key, rs256, payload(`,"exp":1800000001`, "")), "it has expired"},
		"password":      {"open-sesame", "not a JSON Web Token"},
	} {
		t.Run(name, func(t *testing.T) {
			claims, err := tokenVerifier{&key.PublicKey, "https://cluster"}.verifyToken(tt.token, "registry.example", now)
			if got := fmt.Sprint(err); tt.want != "" && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if tt.want == "" && (err != nil || claims.Subject != "system:serviceaccount:team:app") {
				t.Errorf("got subject %q and %v", claims.Subject, err)
			}
		})
	}
}
