// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package jwt

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
)

// MaxKeySize limits the size of a private key file in bytes. An RSA key of 16384 bits takes a fifth
// of this size.
const MaxKeySize = 64 << 10

// minRSABits and maxRSABits limit the size of an RSA key. Smaller keys are not allowed (RFC 7518,
// section 3.3). Operations with larger keys take seconds.
const (
	minRSABits = 2048
	maxRSABits = 16384
)

// Key is a private key that signs tokens. Its Format method never prints the key.
type Key struct {
	signer    crypto.Signer
	algorithm string // RS256, PS256, ES256 or EdDSA (RFC 7518, section 3.1; RFC 8037, section 3.1)
}

// Format writes the algorithm for every verb.
func (k *Key) Format(s fmt.State, _ rune) { io.WriteString(s, "jwt.Key("+k.algorithm+")") }

// ParseKey parses a PEM private key without a passphrase. It supports PKCS #1, PKCS #8 and SEC 1
// with an RSA, P-256 or Ed25519 key. It ignores other PEM blocks, such as curve parameters and
// certificates.
func ParseKey(data []byte) (*Key, error) {
	if len(data) > MaxKeySize {
		return nil, fmt.Errorf("larger than %d bytes; check that this is the right file", MaxKeySize)
	}
	block := findKeyBlock(data)
	if block == nil {
		return nil, errors.New("not a private key in PEM format, which begins with -----BEGIN")
	}
	if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
		return nil, errors.New("the private key is encrypted; remove the passphrase, for example with openssl pkey")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("the PEM block type is %.40q, not PRIVATE KEY", block.Type)
	}
	if err != nil {
		return nil, errors.New("cannot parse the private key; use a complete RSA (not RSA-PSS), P-256 or Ed25519 key") // Go's error may quote the key
	}
	return newKey(key)
}

// findKeyBlock returns the first PEM block with a private key. Without such a block, it returns the
// first block, or nil.
func findKeyBlock(data []byte) (first *pem.Block) {
	for {
		block, rest := pem.Decode(data)
		switch {
		case block == nil:
			return first
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return block
		case first == nil:
			first = block
		}
		data = rest
	}
}

func newKey(key any) (*Key, error) {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return nil, fmt.Errorf("the RSA key has %d bits; use %d to %d bits", bits, minRSABits, maxRSABits)
		}
		return &Key{k, "RS256"}, nil
	case *ecdsa.PrivateKey:
		if k.Curve != elliptic.P256() {
			return nil, fmt.Errorf("the key uses the curve %s; use P-256", k.Curve.Params().Name)
		}
		return &Key{k, "ES256"}, nil
	case ed25519.PrivateKey:
		return &Key{k, "EdDSA"}, nil
	}
	return nil, errors.New("the key type cannot sign; use RSA, P-256 or Ed25519")
}

// Public returns the public key.
func (k *Key) Public() crypto.PublicKey { return k.signer.Public() }

// WithPSS returns the RSA key with the algorithm PS256.
func (k *Key) WithPSS() (*Key, error) {
	if _, ok := k.signer.(*rsa.PrivateKey); !ok {
		return nil, fmt.Errorf("the key is for %s; use an RSA key", k.algorithm)
	}
	return &Key{k.signer, "PS256"}, nil
}

// Sign returns a signed token in compact form (RFC 7515, section 3.1). header contains additional
// header fields, such as the key ID (kid).
func (k *Key) Sign(header map[string]string, claims map[string]any) (string, error) {
	text := ""
	all := map[string]string{"alg": k.algorithm, "typ": "JWT"}
	maps.Copy(all, header)
	for _, part := range []any{all, claims} {
		data, err := json.Marshal(part)
		if err != nil {
			return "", errors.New("cannot encode the claims")
		}
		text += "." + base64.RawURLEncoding.EncodeToString(data)
	}
	signature, err := k.sign([]byte(text[1:]))
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return text[1:] + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func (k *Key) sign(text []byte) ([]byte, error) {
	digest := sha256.Sum256(text)
	switch key := k.signer.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
		if err != nil {
			return nil, err
		}
		// The signature is both numbers at full length, without ASN.1 (RFC 7518, section 3.4).
		signature := make([]byte, 64)
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
		return signature, nil
	case ed25519.PrivateKey:
		return ed25519.Sign(key, text), nil
	}
	if k.algorithm == "PS256" {
		return k.signer.Sign(rand.Reader, digest[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256})
	}
	return k.signer.Sign(rand.Reader, digest[:], crypto.SHA256)
}
