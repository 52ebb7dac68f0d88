// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
)

// TestBrokenAnswersHideSecrets verifies that secrets in a plugin's output are redacted in
// standard error, even if the output is not JSON.
func TestBrokenAnswersHideSecrets(t *testing.T) {
	const auth = `{"auth":{"r":{"username":"u","password":"` + canary.PasswordSecret + `"}}}`
	for name, stdout := range map[string]string{
		"a warning before":  "Warning: it can't be found\n" + auth,
		"a missing comma":   strings.Replace(auth, `"u",`, `"u" `, 1),
		"single quotes":     strings.ReplaceAll(auth, `"`, "'"),
		"cut off":           strings.TrimRight(auth, `"}`),
		"a trailing comma":  strings.Replace(auth, `"u",`, `"u",,`, 1),
		"an escaped quote":  strings.Replace(auth, `:"u",`, `:"\"" `, 1),
		"two, one broken":   auth + "{" + auth,
		"YAML":              "password: " + canary.PasswordSecret + "1\n",
		"something behind":  `{} ` + canary.PasswordSecret + "1",
		"a shell's":         "export PASSWORD=" + canary.PasswordSecret + "1;",
		"escaped in quotes": "text\n" + strings.Replace(auth, canary.PasswordSecret[:1], fmt.Sprintf(`\u%04x`, canary.PasswordSecret[0]), 1),
	} {
		t.Run(name, func(t *testing.T) {
			secret := canary.PasswordSecret
			if strings.Contains(stdout, secret+"1") {
				secret += "1" // words without quotes are redacted only if they contain a digit
			}
			c := testCommand(t, "say", testStdout+"="+stdout, testStderr+"=the password is "+secret+" today")
			x, err := c.Run(t.Context(), testRequest())
			if err == nil || x.Stderr != "the password is [redacted] today" {
				t.Errorf("error %v, standard error %q", err, x.Stderr)
			}
			canary.AssertAbsent(t, "the error", fmt.Sprint(err))
		})
	}
}

// TestBrokenAnswersLeaveErrors verifies that an error message is not redacted if the plugin
// writes it to standard output and standard error.
func TestBrokenAnswersLeaveErrors(t *testing.T) {
	const text = `credentials provider: error: cannot reach metadata server of registry.example/team/app, see "password":`
	c := testCommand(t, "say", testStdout+"="+text, testStderr+"="+text)
	if x, err := c.Run(t.Context(), testRequest()); err == nil || x.Stderr != text || x.StderrSecret {
		t.Errorf("error %v, standard error %q, a secret %v", err, x.Stderr, x.StderrSecret)
	}
}
