// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// appKey returns a key that is generated once, because generating a key is slow.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// writeKeyFile writes appKey in GitHub's format, which is PKCS #1 in PEM, and returns the path.
func writeKeyFile(t *testing.T, mode os.FileMode) string {
	t.Helper()
	return writeSecretFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(appKey())})), mode)
}

func writeSecretFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	must.Do(t, os.Chmod(name, mode))
	return name
}

// newGitHubApp returns a provider that authenticates as a GitHub App.
func newGitHubApp(t *testing.T, server *testcloud.Server, change func(*Options)) *Provider {
	t.Helper()
	return newExchangeProvider(t, server, func(o *Options) {
		o.Exchange = &Exchange{
			JWT:      &JWT{KeyFile: writeKeyFile(t, 0o600), Issuer: "Iv1.0"},
			URL:      server.URL() + "/app/installations/1/access_tokens",
			Method:   "POST",
			Headers:  map[string]string{"Authorization": "Bearer {jwt}"},
			Response: Response{Secret: "token", ExpiresAt: "expires_at"},
		}
		if change != nil {
			change(o)
		}
	})
}

// claimsOf verifies the signature of a token and returns its header and claims.
func claimsOf(t *testing.T, token string) (header, claims map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatal("it is no JSON Web Token")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || rsa.VerifyPKCS1v15(&appKey().PublicKey, crypto.SHA256, digest[:], signature) != nil {
		t.Error("the signature is wrong")
	}
	for i, into := range []*map[string]any{&header, &claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(text, into) != nil {
			t.Fatal("it is not JSON")
		}
	}
	return header, claims
}

const installationResponse = `{"token":"` + canary.PasswordSecret + `","expires_at":"2026-11-21T13:00:00Z","permissions":{"packages":"read"}}`

// TestSigned verifies that a request without a service account token gets a credential for a token
// that the node signs.
func TestSigned(t *testing.T) {
	server := newConstantServer(t, installationResponse)
	got := must.Get(getOutcome(t, newGitHubApp(t, server, nil), newRequest("", nil)))(t)
	if want := (responseOutcome{"registry.example", "robot", canary.PasswordSecret, 30 * time.Minute, plugin.CacheRegistry}); got != want {
		t.Error("another response than the endpoint's")
	}
	r := server.Requests()[0]
	header, claims := claimsOf(t, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	want := map[string]any{"iss": "Iv1.0", "iat": float64(testTime.Unix() - 60), "exp": float64(testTime.Unix() + 300)}
	if diff := gocmp.Diff(want, claims); diff != "" || header["alg"] != "RS256" {
		t.Errorf("header %v, claims %s", header, diff)
	}
	if r.Method != "POST" || len(r.Body) > 0 {
		t.Errorf("%s with a body of %d bytes", r.Method, len(r.Body))
	}
}

func TestSignedClaims(t *testing.T) {
	server := newConstantServer(t, installationResponse)
	p := newGitHubApp(t, server, func(o *Options) {
		*o.Exchange.JWT = JWT{
			KeyFile: o.Exchange.JWT.KeyFile, KeyID: "k-1", Issuer: "node", Subject: "{namespace}/{serviceaccount}", Audience: "https://sts.example", Lifetime: 9 * time.Minute,
			Claims: map[string]any{"image": "{image}", "list": []any{"{registry}", 1, true}},
		}
	})
	got := must.Get(getOutcome(t, p, newRequest(serviceAccountToken(nil), nil)))(t)
	if got.Scope != plugin.CacheImage {
		t.Errorf("got scope %s, want Image: a claim has the image", got.Scope)
	}
	header, claims := claimsOf(t, strings.TrimPrefix(server.Requests()[0].Header.Get("Authorization"), "Bearer "))
	want := map[string]any{
		"iss": "node", "sub": "team/puller", "aud": "https://sts.example", "image": "registry.example/team/app",
		"list": []any{"registry.example", 1.0, true}, "iat": float64(testTime.Unix() - 60), "exp": float64(testTime.Unix() + 540),
	}
	if diff := gocmp.Diff(want, claims); diff != "" || header["kid"] != "k-1" {
		t.Errorf("header %v, claims %s", header, diff)
	}
}

// TestSignedNeedsToken verifies that a service account token is required if the request uses the
// token or its claims.
func TestSignedNeedsToken(t *testing.T) {
	server := newConstantServer(t, installationResponse)
	for title, change := range map[string]func(*Options){
		"a claim":     func(o *Options) { o.Exchange.JWT.Subject = "{namespace}" },
		"a form":      func(o *Options) { o.Exchange.Form = map[string]string{"t": "{token}"} },
		"a user name": func(o *Options) { o.Username = "{serviceaccount}" },
		"an audience": func(o *Options) { o.Audience = "registry.example" },
	} {
		t.Run(title, func(t *testing.T) {
			_, err := getOutcome(t, newGitHubApp(t, server, change), newRequest("", nil))
			checkError(t, err, "registry.example: no service-account token in the request; set tokenAttributes in the provider's configuration, and use kubelet 1.34 or newer")
		})
	}
	if len(server.Requests()) > 0 {
		t.Error("the endpoint was called")
	}
	p := newGitHubApp(t, server, func(o *Options) { o.Exchange.JWT.Claims = map[string]any{"a": "{namespace}"} })
	_, err := getOutcome(t, p, newRequest(serviceAccountToken(map[string]any{"sub": "x"}), nil))
	checkError(t, err, "exchange.jwt.claims: {namespace}: the token does not name a service account")
	// A token that is not used is not checked.
	if _, err := getOutcome(t, newGitHubApp(t, server, nil), newRequest(serviceAccountToken(map[string]any{"exp": 1, "aud": "https://cluster.example"}), nil)); err != nil {
		t.Error(err)
	}
}

func TestSignedFails(t *testing.T) {
	encrypted := "-----BEGIN ENCRYPTED PRIVATE KEY-----\n" + base64.StdEncoding.EncodeToString([]byte(canary.PasswordSecret)) + "\n-----END ENCRYPTED PRIVATE KEY-----\n"
	for title, tt := range map[string]struct {
		file string
		want string
	}{
		"not a key":      {writeSecretFile(t, canary.PasswordSecret, 0o600), "not a private key in PEM format, which begins with -----BEGIN"},
		"encrypted":      {writeSecretFile(t, encrypted, 0o600), "the private key is encrypted"},
		"too large":      {writeSecretFile(t, strings.Repeat("x", jwt.MaxKeySize+1), 0o600), "larger than 65536 bytes; check that this is the right file"},
		"far too large":  {writeSecretFile(t, strings.Repeat("x", 2<<20), 0o600), "larger than 1048576 bytes; check that this is the right file"},
		"of everybody":   {writeKeyFile(t, 0o644), "other users can read or change it; run chmod 600"},
		"for everybody":  {writeKeyFile(t, 0o602), "other users can read or change it; run chmod 600"},
		"no file":        {"/nonexistent/key.pem", "no such file or directory"},
		"a directory":    {t.TempDir(), "is a directory, not a regular file"},
		"nothing at all": {writeSecretFile(t, "", 0o600), "not a private key in PEM format, which begins with -----BEGIN"},
	} {
		t.Run(title, func(t *testing.T) {
			server := newConstantServer(t, installationResponse)
			p := newGitHubApp(t, server, func(o *Options) { o.Exchange.JWT.KeyFile = tt.file })
			_, err := getOutcome(t, p, newRequest("", nil))
			checkError(t, err, "registry.example: get a credential: exchange.jwt.keyFile: read "+fmt.Sprintf("%q", tt.file))
			checkError(t, err, tt.want)
			if len(server.Requests()) > 0 {
				t.Error("the endpoint was called")
			}
		})
	}
}

// TestSignedRefused verifies that the error describes the token that the endpoint rejected.
func TestSignedRefused(t *testing.T) {
	server := newConstantServer(t, installationResponse)
	server.Inject(testcloud.Fault{Status: 401, Body: `{"message":"'Expiration time' claim ('exp') is too far in the future"}`})
	_, err := getOutcome(t, newGitHubApp(t, server, nil), newRequest("", nil))
	checkError(t, err, `get a credential: POST `+server.URL()+`/app/installations/1/access_tokens: status 401 Unauthorized; {jwt} has issuer "Iv1.0", subject "" and audience "", and was issued at 2026-11-21T11:59:00Z and signed with "`)
	checkError(t, err, "check that the endpoint trusts them, and check the node's clock")
}

// TestShortExpiryIsNotCached verifies that a credential that expires in ten seconds is returned
// with a warning and is not cached.
func TestShortExpiryIsNotCached(t *testing.T) {
	var logged bytes.Buffer
	server := newConstantServer(t, `{"token":"`+canary.PasswordSecret+`","expires_at":"2026-11-21T12:00:10Z"}`)
	p := newGitHubApp(t, server, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	got, err := getOutcome(t, p, newRequest("", nil))
	if err != nil || got.Password != canary.PasswordSecret || got.Cache != 0 {
		t.Errorf("error %v, kept for %v, or another password", err, got.Cache)
	}
	if !strings.Contains(logged.String(), "level=WARN") || !strings.Contains(logged.String(), "the credential might expire before the pull completes; check the node's clock") || !strings.Contains(logged.String(), "left=10s") {
		t.Errorf("log %q", logged.String())
	}
	canary.AssertAbsent(t, "log", logged.String())
}
