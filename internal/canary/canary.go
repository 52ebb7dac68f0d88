// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package canary contains the secrets that tests use, and finds secrets in text that must not
// contain any. test.sh searches the output of all tests for [Marker].
package canary

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
)

// Marker is the prefix of every secret.
const Marker = "canary-"

// One secret for each kind of secret value.
const (
	PasswordSecret = Marker + "password-4b1d"
	TokenSecret    = Marker + "token-4b1d"
	EnvSecret      = Marker + "env-4b1d"
	ArgSecret      = Marker + "arg-4b1d"
)

// EncodedMarkers returns the marker in plain text, in hex, and in base64 at each of the three
// alignments.
func EncodedMarkers() []string {
	forms := []string{Marker, hex.EncodeToString([]byte(Marker))}
	for shift := range 3 {
		enc := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + Marker))
		// Omit the first and last characters, because they may depend on adjacent bytes.
		first, last := (shift*8+5)/6, (shift+len(Marker))*8/6
		forms = append(forms, enc[first:last])
	}
	return forms
}

// FindMarker returns the first encoded form of the marker that s contains, or "".
func FindMarker(s string) string {
	for _, f := range EncodedMarkers() {
		if strings.Contains(s, f) {
			return f
		}
	}
	return ""
}

// AssertAbsent fails the test if s contains a secret. It does not print s.
func AssertAbsent(t testing.TB, what, s string) {
	t.Helper()
	if f := FindMarker(s); f != "" {
		t.Errorf("%s holds a planted secret (as %d bytes at offset %d of %d)", what, len(f), strings.Index(s, f), len(s))
	}
}
