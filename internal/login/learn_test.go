// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// TestLearnFromResponse verifies that Learn stores the challenge of a response, so that Login
// requests a token.
func TestLearnFromResponse(t *testing.T) {
	for auth, scheme := range map[testregistry.Auth]string{testregistry.AuthNone: "", testregistry.AuthBasic: "basic", testregistry.AuthBearer: "bearer"} {
		t.Run(fmt.Sprintf("auth %q", scheme), func(t *testing.T) {
			f, r := startRegistry(t, auth, false, nil)
			manifest := f.URL + "/v2/team/app/manifests/v1"
			said := r.Learn(httpGet(t, r, manifest))
			if (said == nil) != (scheme == "") {
				t.Fatalf("learned %v, want the scheme %q", said, scheme)
			}
			if said == nil {
				said = &Challenge{}
			}
			if said.Scheme != scheme {
				t.Errorf("scheme %q, want %q", said.Scheme, scheme)
			}
			if want := auth == testregistry.AuthBearer; (said.Parameters["scope"] == "repository:team/app:pull") != want || r.UsesTokens() != want {
				t.Errorf("parameters %v, tokens %v", said.Parameters, r.UsesTokens())
			}
			for _, cred := range []*regcred.Credential{newCredential("good", "wrong"), newCredential("good", canary.PasswordSecret)} {
				s, err := r.Login(t.Context(), cred)
				if err != nil && StatusCode(err) != http.StatusUnauthorized {
					t.Fatal(err)
				}
				if err == nil && cred.Password.Reveal() == canary.PasswordSecret && httpGet(t, s, manifest).StatusCode != http.StatusOK {
					t.Error("the right password is refused")
				}
			}
			for _, line := range f.takeRequests() {
				if strings.Contains(line, "/v2/ ") {
					t.Errorf("it is asked: %s", line)
				}
			}
		})
	}
}

// TestLearnOtherScheme verifies that a response over plain HTTP is not used for a login over TLS.
func TestLearnOtherScheme(t *testing.T) {
	_, r := startRegistry(t, testregistry.AuthBasic, true, nil)
	resp := httpGet(t, r, "https://registry.example.com/v2/team/app/manifests/v1")
	resp.Request.URL.Scheme = "http"
	r.Learn(resp)
	s := must.Get(r.Login(t.Context(), newCredential("good", canary.PasswordSecret)))(t)
	if resp := httpGet(t, s, "https://registry.example.com/v2/team/app/manifests/v1"); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}
