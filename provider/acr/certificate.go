// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// certificateToken proves the identity by a client certificate.
func (s *session) certificateToken(ctx context.Context, cfg *config) (string, error) {
	data, err := readFile(cfg.ClientCertPath, true)
	if err != nil {
		return "", fmt.Errorf("aadClientCertPath %w", err)
	}
	cert, key, err := parseCertificate(data)
	if err != nil {
		return "", fmt.Errorf("aadClientCertPath %q: %w", cfg.ClientCertPath, err)
	}
	env, err := s.environment(ctx)
	if err != nil {
		return "", err
	}
	audience, err := env.tokenURL(cfg.TenantID, "")
	if err != nil {
		return "", err
	}
	signed, err := sign(cert, key, cfg.ClientID, audience, s.opts.Now())
	if err != nil {
		return "", fmt.Errorf("aadClientCertPath %q: its key cannot sign: %w", cfg.ClientCertPath, err)
	}
	token, err := s.entraToken(ctx, cfg.ClientID, cfg.TenantID, assertion(signed))
	if err != nil {
		return "", entraHint(err, "check tenantId, aadClientId and the certificate of that application")
	}
	return token, nil
}

// parseCertificate finds in PEM an RSA key, and the certificate that it is of.
func parseCertificate(data []byte) (*x509.Certificate, *rsa.PrivateKey, error) {
	var certs []*x509.Certificate
	var keys []*rsa.PrivateKey
	encrypted := false
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		encrypted = encrypted || strings.HasPrefix(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != ""
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			certs = append(certs, cert)
		}
		if key := parseKey(block); key != nil {
			keys = append(keys, key)
		}
	}
	const cure = "write both without a password, as \"openssl pkcs12 -in FILE.pfx -nodes -out FILE.pem\" does"
	switch {
	case encrypted:
		return nil, nil, errors.New("its key has a password, which is not supported; " + cure)
	case len(certs) == 0 || len(keys) != 1:
		return nil, nil, errors.New("it is not a certificate and one RSA key in PEM; PKCS#12 is not supported: " + cure)
	}
	for _, cert := range certs {
		if keys[0].PublicKey.Equal(cert.PublicKey) {
			return cert, keys[0], nil
		}
	}
	return nil, nil, errors.New("its key is not that of its certificate")
}

// parseKey returns nil if the block is no RSA key.
func parseKey(block *pem.Block) *rsa.PrivateKey {
	switch block.Type {
	case "PRIVATE KEY":
		key, _ := x509.ParsePKCS8PrivateKey(block.Bytes)
		rsaKey, _ := key.(*rsa.PrivateKey)
		return rsaKey
	case "RSA PRIVATE KEY":
		key, _ := x509.ParsePKCS1PrivateKey(block.Bytes)
		return key
	}
	return nil
}

// signedFor is how long what is signed here is good. Microsoft suggests five
// to ten minutes.
const signedFor = 10 * time.Minute

// sign states in a JSON Web Token who asks the token endpoint, as Microsoft
// Entra ID wants it (learn.microsoft.com/entra/identity-platform/certificate-credentials).
func sign(cert *x509.Certificate, key *rsa.PrivateKey, clientID, audience string, now time.Time) (string, error) {
	thumbprint := sha256.Sum256(cert.Raw)
	text := ""
	for _, part := range []map[string]any{
		{"alg": "PS256", "typ": "JWT", "x5t#S256": base64.RawURLEncoding.EncodeToString(thumbprint[:])},
		{
			"iss": clientID, "sub": clientID, "aud": audience, "jti": rand.Text(),
			"nbf": now.Unix(), "exp": now.Add(signedFor).Unix(),
		},
	} {
		data, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		text += "." + base64.RawURLEncoding.EncodeToString(data)
	}
	digest := sha256.Sum256([]byte(text[1:]))
	signature, err := rsa.SignPSS(rand.Reader, key, crypto.SHA256, digest[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	return text[1:] + "." + base64.RawURLEncoding.EncodeToString(signature), err
}
