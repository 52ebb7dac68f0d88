// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
)

// TestErrorsHideUserInfo verifies that errors hide a password in a URL, in each field whose
// value an error may contain.
func TestErrorsHideUserInfo(t *testing.T) {
	const url = "https://user:" + canary.PasswordSecret + "@registry.example"
	for _, field := range []string{
		"  name: " + url, "  matchImages: ['user:" + canary.PasswordSecret + "@registry.example:x']", "  apiVersion: " + url, "  defaultCacheDuration: " + url,
		"  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true, cacheType: '" + url + "', requiredServiceAccountAnnotationKeys: ['" + url + "']}",
	} {
		name, _, _ := strings.Cut(field, ":")
		text := testHeader + "providers:\n- {}\n"
		for _, line := range []string{"  name: a", "  matchImages: [a.example]", "  apiVersion: credentialprovider.kubelet.k8s.io/v1", "  defaultCacheDuration: 1h"} {
			if strings.HasPrefix(line, name+":") {
				continue
			}
			text += line + "\n"
		}
		text = strings.Replace(text, "- {}\n  ", "- ", 1) + field + "\n"
		c, err := Parse("f", []byte(text))
		if err == nil {
			err = c.Validate()
		}
		lines := strings.Join(errorLines(t, "", err), "\n") // errorLines fails the test if it finds the password
		if !strings.Contains(lines, "…@registry.example") {
			t.Errorf("%s: got %s", name, lines)
		}
	}
	for _, head := range []string{"kind: " + url + "\napiVersion: v1\n", "kind: CredentialProviderConfig\napiVersion: " + url + "\n"} {
		_, err := Parse("f", []byte(head))
		if lines := strings.Join(errorLines(t, "", err), "\n"); !strings.Contains(lines, "…@registry.example") {
			t.Errorf("got %s", lines)
		}
	}
}
