// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package jwt

import (
	"crypto"
	"crypto/ecdh"
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
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

func inPEM(kind string, der []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodePKCS8(key any) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return inPEM("PRIVATE KEY", der, err)
}

func mustGenerate[K any](t testing.TB, key K, err error) K {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// verifySignature reports whether the signature is valid.
func verifySignature(public crypto.PublicKey, text string, signature []byte) bool {
	digest := sha256.Sum256([]byte(text))
	switch key := public.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) == nil
	case *ecdsa.PublicKey:
		r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		return len(signature) == 64 && ecdsa.Verify(key, digest[:], r, s)
	case ed25519.PublicKey:
		return ed25519.Verify(key, []byte(text), signature)
	}
	return false
}

func TestSign(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	rsaKey = mustGenerate(t, rsaKey, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ecKey = mustGenerate(t, ecKey, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	edKey = mustGenerate(t, edKey, err)
	ecDER, err := x509.MarshalECPrivateKey(ecKey)
	for name, tt := range map[string]struct {
		pem       []byte
		public    crypto.PublicKey
		algorithm string
	}{
		"PKCS #1":           {inPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil), rsaKey.Public(), "RS256"},
		"PKCS #8, RSA":      {encodePKCS8(rsaKey), rsaKey.Public(), "RS256"},
		"PKCS #8, P-256":    {encodePKCS8(ecKey), ecKey.Public(), "ES256"},
		"SEC 1":             {inPEM("EC PRIVATE KEY", ecDER, err), ecKey.Public(), "ES256"},
		"PKCS #8, Ed25519":  {encodePKCS8(edKey), edKey.Public(), "EdDSA"},
		"text around":       {[]byte("a key\n" + string(encodePKCS8(edKey)) + "\nof mine\n"), edKey.Public(), "EdDSA"},
		"Windows line ends": {[]byte(strings.ReplaceAll(string(encodePKCS8(edKey)), "\n", "\r\n")), edKey.Public(), "EdDSA"},
	} {
		t.Run(name, func(t *testing.T) {
			key := must.Get(ParseKey(tt.pem))(t)
			if key.algorithm != tt.algorithm {
				t.Errorf("it signs with %s, want %s", key.algorithm, tt.algorithm)
			}
			for range 20 { // sometimes the numbers in an ES256 signature have leading zeros
				token := must.Get(key.Sign(map[string]string{"kid": "k1"}, map[string]any{"iss": "me", "exp": 1900000000}))(t)
				checkToken(t, token, tt.public, tt.algorithm)
			}
		})
	}
}

func checkToken(t *testing.T, token string, public crypto.PublicKey, algorithm string) {
	t.Helper()
	i := strings.LastIndexByte(token, '.')
	signature, err := base64.RawURLEncoding.DecodeString(token[i+1:])
	if err != nil || !verifySignature(public, token[:i], signature) {
		t.Errorf("the signature is wrong (%v)", err)
	}
	first, _, _ := strings.Cut(token, ".")
	text, _ := base64.RawURLEncoding.DecodeString(first)
	var header map[string]string
	if err := json.Unmarshal(text, &header); err != nil || header["alg"] != algorithm || header["kid"] != "k1" || header["typ"] != "JWT" {
		t.Errorf("header %s, %v", text, err)
	}
	if claims, err := Parse(token); err != nil || claims.Issuer != "me" || claims.Expires.Unix() != 1900000000 {
		t.Errorf("claims %+v, %v", claims, err)
	}
}

func TestSignWithoutKeyID(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	parsed, err2 := ParseKey(encodePKCS8(mustGenerate(t, key, err)))
	token, err3 := parsed.Sign(nil, nil)
	first, _, _ := strings.Cut(token, ".")
	text, _ := base64.RawURLEncoding.DecodeString(first)
	if err2 != nil || err3 != nil || string(text) != `{"alg":"EdDSA","typ":"JWT"}` {
		t.Errorf("header %s, %v, %v", text, err2, err3)
	}
}

// TestParseKeyBehindOthers verifies that other PEM blocks may precede the key. For example, openssl
// ecparam writes the curve first, and a file may begin with a certificate.
func TestParseKeyBehindOthers(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	key := mustGenerate(t, private, err)
	der, err := x509.MarshalECPrivateKey(key)
	text := slices.Concat(inPEM("EC PARAMETERS", []byte("x"), nil), inPEM("CERTIFICATE", []byte("x"), nil), inPEM("EC PRIVATE KEY", der, err))
	if got, err := ParseKey(text); err != nil || got.algorithm != "ES256" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestParseKeyRefuses(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	small = mustGenerate(t, small, err)
	large, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	large = mustGenerate(t, large, err)
	agree, err := ecdh.X25519().GenerateKey(rand.Reader)
	agree = mustGenerate(t, agree, err)
	public, err := x509.MarshalPKIXPublicKey(small.Public())
	legacy := "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n" +
		base64.StdEncoding.EncodeToString([]byte(canary.PasswordSecret)) + "\n-----END RSA PRIVATE KEY-----\n"
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"empty":                {nil, "not a private key in PEM format, which begins with -----BEGIN"},
		"text":                 {[]byte(canary.PasswordSecret), "not a private key in PEM format, which begins with -----BEGIN"},
		"half":                 {encodePKCS8(large)[:60], "not a private key in PEM format, which begins with -----BEGIN"},
		"public":               {inPEM("PUBLIC KEY", public, err), `the PEM block type is "PUBLIC KEY", not PRIVATE KEY`},
		"certificate":          {inPEM("CERTIFICATE", []byte(canary.PasswordSecret), nil), `the PEM block type is "CERTIFICATE", not PRIVATE KEY`},
		"OpenSSH":              {inPEM("OPENSSH PRIVATE KEY", []byte(canary.PasswordSecret), nil), `the PEM block type is "OPENSSH PRIVATE KEY", not PRIVATE KEY`},
		"encrypted":            {inPEM("ENCRYPTED PRIVATE KEY", []byte(canary.PasswordSecret), nil), "the private key is encrypted"},
		"encrypted, as before": {[]byte(legacy), "the private key is encrypted"},
		"garbage":              {inPEM("PRIVATE KEY", []byte(canary.PasswordSecret), nil), "cannot parse the private key; use a complete RSA (not RSA-PSS), P-256 or Ed25519 key"},
		"garbage, PKCS #1":     {inPEM("RSA PRIVATE KEY", []byte(canary.PasswordSecret), nil), "cannot parse the private key; use a complete RSA (not RSA-PSS), P-256 or Ed25519 key"},
		"other form":           {inPEM("EC PRIVATE KEY", x509.MarshalPKCS1PrivateKey(small), nil), "cannot parse the private key; use a complete RSA (not RSA-PSS), P-256 or Ed25519 key"},
		"small":                {encodePKCS8(small), "the RSA key has 1024 bits; use 2048 to 16384 bits"},
		"other curve":          {encodePKCS8(large), "the key uses the curve P-384; use P-256"},
		"no signature":         {encodePKCS8(agree), "the key type cannot sign; use RSA, P-256 or Ed25519"},
		"too large":            {[]byte(strings.Repeat(canary.PasswordSecret, MaxKeySize)), "larger than 65536 bytes; check that this is the right file"},
	} {
		key, err := ParseKey(tt.data)
		if key != nil || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
		canary.AssertAbsent(t, name, fmt.Sprint(err))
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	key := must.Get(ParseKey(encodePKCS8(mustGenerate(t, edKey, err))))(t)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(verb, key); got != "jwt.Key(EdDSA)" {
			t.Errorf("%s prints %q", verb, got)
		}
	}
}

// FuzzParseKey verifies that no file leads to a panic, and that every parsed key can sign.
func FuzzParseKey(f *testing.F) {
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	edKey = mustGenerate(f, edKey, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ecKey = mustGenerate(f, ecKey, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	rsaKey = mustGenerate(f, rsaKey, err)
	for _, data := range [][]byte{
		encodePKCS8(edKey), encodePKCS8(ecKey), inPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil),
		inPEM("ENCRYPTED PRIVATE KEY", nil, nil), []byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"),
	} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := ParseKey(data)
		if err != nil {
			return
		}
		if _, err := key.Sign(nil, map[string]any{"iss": "me"}); err != nil && key.algorithm != "RS256" {
			t.Error(err)
		}
	})
}
