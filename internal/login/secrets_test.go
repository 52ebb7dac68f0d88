// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"fmt"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/plugin"
)

// TestShortPassword verifies that Redact does not redact a short password within the text that
// replaces another one.
func TestShortPassword(t *testing.T) {
	cred := regcred.Credential{Username: "u", Password: plugin.NewSecret("e")}
	x := &Secrets{}
	x.AddCredential(&cred)
	const text = "here are bees e-e"
	if got, want := x.Redact(text), "here are bees [redacted]-[redacted]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRedactSuspectedSecrets verifies that text that looks like a secret is redacted even if it is not a known secret.
func TestRedactSuspectedSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"sent Bearer abcdefghijkl0123, refused":          "sent Bearer [redacted], refused",
		"Authorization: Basic dXNlcjpwYXNzd29yZA==":      "Authorization: Basic [redacted]",
		"basic authentication required":                  "basic authentication required",
		`Bearer realm="https://auth.example/token"`:      `Bearer realm="https://auth.example/token"`,
		"got eyJhbGciOi.eyJzdWIi.c2ln here":              "got [redacted] here",
		`Get "https://s3.example/b?X-Amz-Signature=a&b"`: `Get "https://s3.example/b?[redacted]"`,
		"https://u:p@host/x":                             "https://[redacted]@host/x",
		"/path?sig=abc":                                  "/path?[redacted]",
		"form access_token=abc&x=y":                      "form access_token=[redacted]&x=y",
		"signature=abc":                                  "signature=[redacted]",
		"registry.example/team/app@sha256:abcdef":        "registry.example/team/app@sha256:abcdef",
		"what? a = b":                                    "what? a = b",
	} {
		if got := (&Secrets{}).Redact(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestSecretsForget verifies that a token server cannot fill the memory with tokens.
func TestSecretsForget(t *testing.T) {
	x := &Secrets{}
	for i := range 100 {
		x.addFromServer(fmt.Sprintf("%0*d", maxSecretsSize/10, i))
	}
	if len(x.secrets) > 10 || x.secrets[len(x.secrets)-1] != fmt.Sprintf("%0*d", maxSecretsSize/10, 99) {
		t.Errorf("%d are kept, and the last is not among them", len(x.secrets))
	}
}

// TestSecretsOfLongCopy verifies that the signatures of many blobs neither slow down redaction nor displace tokens that
// are in use.
func TestSecretsOfLongCopy(t *testing.T) {
	const token = "a-token-of-the-registry"
	x := &Secrets{}
	for i := range 10_000 {
		x.addFromServer(token)
		x.addFromServer(fmt.Sprintf("signature-of-the-blob-%d", i))
	}
	if len(x.secrets) > maxSecrets || x.size > maxSecrets*len("signature-of-the-blob-9999") {
		t.Errorf("%d are kept, of %d bytes", len(x.secrets), x.size)
	}
	if got, want := x.Redact(token+" signature-of-the-blob-9999"), "[redacted] [redacted]"; got != want {
		t.Errorf("got %q", got)
	}
}
