// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// spiffeToken returns a SPIFFE token, whose subject is not a service account.
func spiffeToken(claims map[string]any) string {
	all := map[string]any{"iss": "https://spire.example", "sub": "spiffe://example/node"}
	for name, value := range claims {
		all[name] = value
	}
	return serviceAccountToken(all)
}

func TestTokenFile(t *testing.T) {
	own, ofFile := serviceAccountToken(nil), spiffeToken(map[string]any{"exp": testTime.Add(10 * time.Minute).Unix()})
	file := writeSecretFile(t, ofFile+"\n", 0o600)
	for title, tt := range map[string]struct {
		apiVersion string
		token      string
		want       string
		cache      time.Duration
	}{
		"static pod":       {plugin.V1, "", ofFile, 5 * time.Minute},
		"kubelet 1.26":     {plugin.V1Beta1, "", ofFile, 5 * time.Minute},
		"a pod's token":    {plugin.V1, own, own, 30 * time.Minute},
		"before providers": {plugin.V1Alpha1, "", ofFile, 5 * time.Minute},
	} {
		t.Run(title, func(t *testing.T) {
			req := newRequest(tt.token, nil)
			req.APIVersion = tt.apiVersion
			got := must.Get(getOutcome(t, newProvider(t, Options{TokenFile: file}), req))(t)
			if got.Password != tt.want || got.Cache != tt.cache || got.Scope != plugin.CacheRegistry {
				t.Errorf("scope %s, kept for %v, or another token", got.Scope, got.Cache)
			}
		})
	}
}

// TestTokenFileIsReadAnew verifies that a replaced token file is used for the next request.
func TestTokenFileIsReadAnew(t *testing.T) {
	file := writeSecretFile(t, spiffeToken(map[string]any{"jti": "1"}), 0o600)
	p := newProvider(t, Options{TokenFile: file})
	for _, id := range []string{"1", "2"} {
		got, err := getOutcome(t, p, newRequest("", nil))
		if err != nil || got.Password != spiffeToken(map[string]any{"jti": id}) {
			t.Errorf("error %v, or another token than the file's", err)
		}
		must.Do(t, os.WriteFile(file, []byte(spiffeToken(map[string]any{"jti": "2"})), 0o600))
	}
}

func TestTokenFileFails(t *testing.T) {
	file := func(text string) string { return writeSecretFile(t, text, 0o600) }
	for title, tt := range map[string]struct {
		file string
		opts Options
		want string
	}{
		"missing":           {file: "/nonexistent/token", want: `read "/nonexistent/token": no such file or directory`},
		"empty":             {file: file("\n"), want: "FILE: file is empty"},
		"of everybody":      {file: writeSecretFile(t, spiffeToken(nil), 0o644), want: "FILE: other users can read or change it; run chmod 600 "},
		"a directory":       {file: t.TempDir(), want: "FILE: is a directory, not a regular file"},
		"two lines":         {file: file(canary.TokenSecret + "\n" + canary.TokenSecret), want: "FILE: not a single line of text"},
		"a header":          {file: file("Bearer " + spiffeToken(nil)), want: "FILE: not a token; remove spaces, quotes and any prefix before the token"},
		"a blank after it":  {file: file(spiffeToken(nil) + " \n"), want: "FILE: not a token; remove spaces, quotes and any prefix before the token"},
		"quotes":            {file: file(`"` + spiffeToken(nil) + `"`), want: "FILE: not a token; remove spaces, quotes and any prefix before the token"},
		"a mark before it":  {file: file("\ufeff" + spiffeToken(nil)), want: "FILE: not a token; remove spaces, quotes and any prefix before the token"},
		"another audience":  {file: file(spiffeToken(map[string]any{"aud": "vault"})), want: `the token in FILE has the audience ["vault"], not "registry.example"; check the file and the plugin's audience`},
		"for its issuer":    {file: file(spiffeToken(map[string]any{"aud": []string{"registry.example", "https://spire.example"}})), want: `the token in FILE has the API server's audience, "https://spire.example", so the recipient of the token can act as "spiffe://example/node"`},
		"expired":           {file: file(spiffeToken(map[string]any{"exp": testTime.Add(-time.Hour).Unix()})), want: "the token in FILE expired 1h0m0s ago, at 2026-11-21T11:00:00Z"},
		"no JWT":            {file: file(canary.TokenSecret), want: "check the audience of the token in FILE: not a JSON Web Token"},
		"no namespace":      {file: file(spiffeToken(nil)), opts: Options{Username: "{namespace}"}, want: "username: {namespace}: the token does not name a service account"},
		"no serviceaccount": {file: file(spiffeToken(nil)), opts: Options{Username: "{serviceaccount}"}, want: "username: {serviceaccount}: the token does not name a service account"},
	} {
		t.Run(title, func(t *testing.T) {
			tt.opts.TokenFile = tt.file
			_, err := getOutcome(t, newProvider(t, tt.opts), newRequest("", nil))
			checkError(t, err, "registry.example: ")
			checkError(t, err, strings.ReplaceAll(tt.want, "FILE", fmt.Sprintf("%q", tt.file)))
		})
	}
	// The token in the request takes precedence over the file.
	if _, err := getOutcome(t, newProvider(t, Options{TokenFile: "/nonexistent"}), newRequest(serviceAccountToken(nil), nil)); err != nil {
		t.Error(err)
	}
}

// TestTokenFileExchanged verifies that the token in the file is exchanged, and that an error names
// the file.
func TestTokenFileExchanged(t *testing.T) {
	server := newConstantServer(t, `{"access_token":"`+canary.PasswordSecret+`","expires_in":600}`)
	file := writeSecretFile(t, spiffeToken(nil), 0o600)
	p := newExchangeProvider(t, server, func(o *Options) { o.TokenFile = file })
	got, err := getOutcome(t, p, newRequest("", nil))
	if err != nil || got.Password != canary.PasswordSecret || server.Requests()[0].Form().Get("subject_token") != spiffeToken(nil) {
		t.Errorf("error %v, or another token was exchanged", err)
	}
	server.Close()
	_, err = getOutcome(t, p, newRequest("", nil))
	checkError(t, err, fmt.Sprintf("registry.example: exchange the token in %q: POST ", file))
}
