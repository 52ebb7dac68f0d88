// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// FuzzHosts compares the hosts that receive the token with an equivalent regular expression.
func FuzzHosts(f *testing.F) {
	pattern := regexp.MustCompile(`^(gcr\.io|container\.cloud\.google\.com|[^.:]+\.gcr\.io|[^.:]+\.pkg\.dev|docker\.[^.:]+\.rep\.pkg\.dev)(:443)?$`)
	for _, seed := range []string{
		"gcr.io/p/a", "us.gcr.io:443/p/a", "docker.me-central2.rep.pkg.dev/p/a", "gcr.io.example/p", "evilgcr.io/p", "a.b.pkg.dev/p", ".gcr.io/p",
		"gcr.io:443:443/p", "https://GCR.IO/p", "gcr.io@evil.example/p", "[::1]:443/p", "*.gcr.io/p", "?.gcr.io/p", "\u212A.gcr.io/p", "",
	} {
		f.Add(seed)
	}
	p := must.Get(New(Options{}))(f)
	f.Fuzz(func(t *testing.T, image string) {
		registry := (&plugin.Request{Image: image}).Registry()
		keys, _ := p.authKeysFor(&plugin.Request{Image: image})
		if want := pattern.MatchString(strings.ToLower(registry)); (keys != nil) != want {
			t.Errorf("%q: got %q, want %v", registry, keys, want)
		}
		if keys != nil && !slices.Contains(keys, registry) {
			t.Errorf("%q: it has no key among %q", registry, keys)
		}
	})
}

// FuzzFederation verifies that any configuration sends a token only to Google over TLS, and that an error is one line.
func FuzzFederation(f *testing.F) {
	const good = `{"type":"external_account","audience":"a","token_url":"https://sts.googleapis.com/v1/token","credential_source":{"file":"/t"}`
	for _, seed := range []string{
		good + "}", good + `,"service_account_impersonation_url":"https://iamcredentials.googleapis.com/v1/x:generateAccessToken"}`,
		good + `,"token_url":"https://a@sts.googleapis.com"}`, good + `,"token_url":"https://sts.googleapis.com.example\\.googleapis.com"}`,
		good + `,"token_url":"https://storage.googleapis.com/sts"}`, good + `,"token_url":"https://eu.sts.mtls.googleapis.com/v1/token"}`,
		good + `,"token_url":"https://sts-me.p.googleapis.com/v1/token"}`, good + `,"token_url":"https://us-east4-sts.googleapis.com/v1/token"}`,
		good + `,"token_url":"https://googleapis.com:443/.googleapis.com"}`, `{"type":"service_account"}`, "null", "[]", "{", "",
	} {
		f.Add([]byte(seed))
	}
	google := regexp.MustCompile(`^https://([^/?#@]+[.-])?(sts|iamcredentials)([.-][^/?#@]+)?\.googleapis\.com(:[0-9]*)?([/?#]|$)`)
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseFederation(data, "googleapis.com")
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 2000 {
				t.Errorf("the error %q", err)
			}
			return
		}
		for _, address := range []string{got.TokenURL, got.AccountURL} {
			if address != "" && !google.MatchString(strings.ToLower(address)) || got.TokenURL == "" {
				t.Errorf("%q gets a token", address)
			}
		}
		if got.AccountURL != "" {
			accountFromURL(got.AccountURL)
		}
	})
}
