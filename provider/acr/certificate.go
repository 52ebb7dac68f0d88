// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/secretfile"
)

// certificateToken gets a token with a client certificate.
func (s *session) certificateToken(ctx context.Context, cfg *config) (string, error) {
	data, err := secretfile.ReadSecret(cfg.ClientCertPath)
	if err != nil {
		return "", fmt.Errorf("aadClientCertPath %w", err)
	}
	cert, key, err := parseCertificate(data)
	if err != nil {
		return "", fmt.Errorf("aadClientCertPath %q: %w", cfg.ClientCertPath, err)
	}
	env, err := s.loadEnvironment(ctx)
	if err != nil {
		return "", err
	}
	audience, err := env.tokenURL(cfg.TenantID, "")
	if err != nil {
		return "", err
	}
	signed, err := signAssertion(cert, key, cfg.ClientID, audience, s.opts.now())
	if err != nil {
		return "", fmt.Errorf("aadClientCertPath %q: %w", cfg.ClientCertPath, err)
	}
	token, err := s.entraToken(ctx, cfg.ClientID, cfg.TenantID, assertionParams(signed))
	return token, addEntraHint(err, "check tenantId, aadClientId and the application's certificate")
}

// parseCertificate returns the RSA key and its certificate from PEM data.
func parseCertificate(data []byte) (*x509.Certificate, *jwt.Key, error) {
	key, err := jwt.ParseKey(data)
	if err == nil {
		key, err = key.WithPSS()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w; convert the certificate and RSA key to PEM without a password: openssl pkcs12 -in FILE.pfx -nodes -out FILE.pem", err)
	}
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, nil, errors.New("no certificate matches the private key")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err == nil && block.Type == "CERTIFICATE" && key.Public().(*rsa.PublicKey).Equal(cert.PublicKey) {
			return cert, key, nil
		}
	}
}

// assertionLifetime is the lifetime of signed assertions. Microsoft recommends five to
// ten minutes.
const assertionLifetime = 10 * time.Minute

// signAssertion returns the client assertion for Microsoft Entra ID
// (learn.microsoft.com/entra/identity-platform/certificate-credentials).
func signAssertion(cert *x509.Certificate, key *jwt.Key, clientID, audience string, now time.Time) (string, error) {
	thumbprint := sha256.Sum256(cert.Raw)
	return key.Sign(map[string]string{"x5t#S256": base64.RawURLEncoding.EncodeToString(thumbprint[:])}, map[string]any{
		"iss": clientID, "sub": clientID, "aud": audience, "jti": rand.Text(),
		"nbf": now.Unix(), "exp": now.Add(assertionLifetime).Unix(),
	})
}
