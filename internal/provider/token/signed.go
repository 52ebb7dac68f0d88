// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/secretfile"
)

// JWT configures a JSON Web Token (RFC 7519) that the node signs to authenticate as an app or
// client (RFC 7523). Issuer, Subject, Audience and the strings in Claims are templates. They cannot
// contain {jwt} or {answer:…}. Empty claims are omitted.
type JWT struct {
	Unprintable `yaml:"-"`

	// KeyFile is the absolute path of a private key in PEM without a passphrase: RSA (RS256), P-256
	// (ES256) or Ed25519 (EdDSA). The file is read for each request.
	KeyFile string `yaml:"keyFile"`
	KeyID   string `yaml:"keyID"` // "" means none

	Issuer   string `yaml:"issuer"`
	Subject  string `yaml:"subject"`
	Audience string `yaml:"audience"`

	// Lifetime is the token's lifetime, at most one hour; 0 means five minutes.
	Lifetime time.Duration `yaml:"lifetime"`

	// Claims are additional claims.
	Claims map[string]any `yaml:"claims"`
}

const (
	defaultSignedLifetime = 5 * time.Minute
	maxSignedLifetime     = time.Hour

	// clockDrift is subtracted from the issue time, in case the endpoint's clock is slow.
	clockDrift = time.Minute
)

// jwtSigner is a validated [JWT].
type jwtSigner struct {
	keyFile  string
	keyID    string
	lifetime time.Duration
	claims   map[string]any // strings are templates
}

// newSigner validates the JWT. Errors begin with the name of the field.
func (j JWT) newSigner() (*jwtSigner, error) {
	s := &jwtSigner{keyFile: j.KeyFile, keyID: j.KeyID, lifetime: cmp.Or(j.Lifetime, defaultSignedLifetime), claims: map[string]any{}}
	switch {
	case !filepath.IsAbs(j.KeyFile):
		return nil, fmt.Errorf("keyFile %q: must be an absolute path", j.KeyFile)
	case s.lifetime < 0 || s.lifetime > maxSignedLifetime:
		return nil, fmt.Errorf("lifetime %v: must be between 1s and %v", s.lifetime, maxSignedLifetime)
	}
	own := []struct{ field, claim, text string }{{"issuer", "iss", j.Issuer}, {"subject", "sub", j.Subject}, {"audience", "aud", j.Audience}}
	for _, o := range own {
		t, err := parseTemplate(o.text, visibleContext())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.field, err)
		}
		if len(t) > 0 {
			s.claims[o.claim] = t
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.Claims)) {
		if slices.Contains([]string{"iss", "sub", "aud", "iat", "exp", "nbf"}, name) {
			return nil, fmt.Errorf("claims.%s: use issuer, subject, audience and lifetime instead", name)
		}
		claim, err := parseJSON("claims."+name, j.Claims[name], contextWithSecrets())
		if err != nil {
			return nil, err
		}
		s.claims[name] = claim
	}
	return s, nil
}

// signToken reads the key and signs a token.
func (s *jwtSigner) signToken(v placeholderValues, now time.Time) (string, error) {
	key, err := s.readKey()
	if err != nil {
		return "", err
	}
	filled, err := expandJSON(s.claims, v)
	if err != nil {
		return "", fmt.Errorf("claims: %w", err)
	}
	claims, _ := filled.(map[string]any)
	claims["iat"], claims["exp"] = now.Add(-clockDrift).Unix(), now.Add(s.lifetime).Unix()
	header := map[string]string{}
	if s.keyID != "" {
		header["kid"] = s.keyID
	}
	signed, err := key.Sign(header, claims)
	if err != nil {
		return "", fmt.Errorf("keyFile: %q: %w", s.keyFile, err)
	}
	return signed, nil
}

func (s *jwtSigner) readKey() (*jwt.Key, error) {
	data, err := secretfile.ReadSecret(s.keyFile)
	if err != nil {
		return nil, fmt.Errorf("keyFile: read %w", err)
	}
	key, err := jwt.ParseKey(data)
	if err != nil {
		return nil, fmt.Errorf("keyFile: read %q: %w", s.keyFile, err)
	}
	return key, nil
}

// describeSigned describes the signed token in the error of an endpoint that rejected it.
func (s *jwtSigner) describeSigned(signed string) string {
	c, err := jwt.Parse(signed)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("{jwt} has issuer %q, subject %q and audience %q, and was issued at %s and signed with %q; check that the endpoint trusts them, and check the node's clock",
		c.Issuer, c.Subject, strings.Join(c.Audience, " "), c.IssuedAt.UTC().Format(time.RFC3339), s.keyFile)
}
