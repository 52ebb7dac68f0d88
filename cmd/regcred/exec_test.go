// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// TestWarnEnds checks the warning about a credential's expiry.
func TestWarnEnds(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	token := testcloud.AzureJWT(map[string]any{"exp": soon.Unix(), "jti": canary.TokenSecret})
	for want, c := range map[string]regcred.Credential{
		`^warning: the credential for r\.example/a expires \d\d:\d\d:\d\d \((1h|59m5\ds)\) and is not renewed in the files\n$`:                                 {Password: plugin.NewSecret(token), CachedUntil: soon.Add(time.Hour)},
		`^warning: the credential for r\.example/a is not renewed in the files; its cache entry expires at .* but the credential might be valid for longer\n$`: {Password: plugin.NewSecret("x"), CachedUntil: soon},
		`^warning: the credential for r\.example/a is not renewed in the files, and its lifetime is unknown\n$`:                                                {Password: plugin.NewSecret("x"), Provider: "p"},
		`^warning: the credential for r\.example/a expired at 1970-01-01T00:00:01Z\n$`:                                                                         {Password: plugin.NewSecret(testcloud.AzureJWT(map[string]any{"exp": 1, "jti": canary.TokenSecret}))},
		`^$`: {Password: plugin.NewSecret("x")}, // a password from a file on the node
	} {
		var stderr bytes.Buffer
		a := newApp(strings.NewReader(""), nil, &stderr, nil)
		a.warnExpiry("r.example/a", c)
		if got := stderr.String(); !regexp.MustCompile(want).MatchString(got) || canary.FindMarker(got) != "" {
			t.Errorf("got %q, want %s", got, want)
		}
	}
}

// TestUnknownCode checks that another command's exit code takes precedence.
func TestUnknownCode(t *testing.T) {
	for _, code := range []int{4, 7, 127, 255} {
		if got := worseExitCode(exitOK, code); got != code {
			t.Errorf("got %d, want %d", got, code)
		}
	}
	if got := fmt.Sprint(worseExitCode(exitNoMatch, exitFailed), worseExitCode(exitUsage, exitFailed)); got != "1 2" {
		t.Errorf("got %s", got)
	}
}
