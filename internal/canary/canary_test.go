// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package canary

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"testing"
)

func TestFindMarker(t *testing.T) {
	for _, user := range []string{"", "u", "us", "use", "user:"} {
		secret := user + PasswordSecret
		for name, s := range map[string]string{
			"plain":     secret,
			"quoted":    fmt.Sprintf("%q", secret),
			"hex":       hex.EncodeToString([]byte(secret)),
			"base64":    base64.StdEncoding.EncodeToString([]byte(secret)),
			"base64url": base64.RawURLEncoding.EncodeToString([]byte(secret)),
		} {
			if FindMarker("x: "+s+"\n") == "" {
				t.Errorf("user %q, %s: not found", user, name)
			}
		}
	}
	if f := FindMarker("a harmless line about a Canary and Y2Fu"); f != "" {
		t.Errorf("found %q in a harmless line", f)
	}
}
