// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package jwt_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/must"
)

// tokenWithPayload returns a token with the given payload.
func tokenWithPayload(payload string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + canary.TokenSecret
}

func TestParse(t *testing.T) {
	for name, tt := range map[string]struct {
		token string
		want  jwt.Claims
	}{
		"a kubelet's": {
			tokenWithPayload(`{"iss":"https://issuer.example","sub":"system:serviceaccount:team:app","aud":["sts"],"iat":1700000000,"exp":1700003600}`),
			jwt.Claims{
				Issuer: "https://issuer.example", Subject: "system:serviceaccount:team:app", Audience: []string{"sts"},
				IssuedAt: time.Unix(1700000000, 0), Expires: time.Unix(1700003600, 0),
			},
		},
		"one audience":        {tokenWithPayload(`{"aud":"sts"}`), jwt.Claims{Audience: []string{"sts"}}},
		"no audience":         {tokenWithPayload(`{"aud":null}`), jwt.Claims{}},
		"empty":               {tokenWithPayload(`{}`), jwt.Claims{}},
		"fraction":            {tokenWithPayload(`{"exp":1700003600.5}`), jwt.Claims{Expires: time.Unix(1700003600, 500000000)}},
		"exponent":            {tokenWithPayload(`{"exp":1.7e9}`), jwt.Claims{Expires: time.Unix(1700000000, 0)}},
		"null times":          {tokenWithPayload(`{"exp":null,"iat":null}`), jwt.Claims{}},
		"year 9999":           {tokenWithPayload(`{"exp":253402300799}`), jwt.Claims{Expires: time.Unix(253402300799, 0)}},
		"padded payload":      {"e30." + base64.URLEncoding.EncodeToString([]byte(`{"sub":"x"}`)) + ".sig", jwt.Claims{Subject: "x"}},
		"unknown claims":      {tokenWithPayload(`{"sub":"x","kubernetes.io":{"namespace":"team"}}`), jwt.Claims{Subject: "x"}},
		"header is no matter": {"%%%." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"x"}`)) + ".", jwt.Claims{Subject: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := must.Get(jwt.Parse(tt.token))(t)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":             "",
		"no parts":            canary.TokenSecret,
		"two parts":           "e30.e30",
		"four parts":          "e30.e30.sig.more",
		"five, encrypted":     "a.b.c.d.e",
		"not base64":          "e30." + canary.TokenSecret + "!.sig",
		"standard base64":     "e30.e+/=.sig",
		"not JSON":            tokenWithPayload(canary.TokenSecret),
		"not an object":       tokenWithPayload(`["` + canary.TokenSecret + `"]`),
		"trailing bytes":      tokenWithPayload(`{} {}`),
		"audience a number":   tokenWithPayload(`{"aud":1}`),
		"audiences mixed":     tokenWithPayload(`{"aud":["a",1]}`),
		"time a text":         tokenWithPayload(`{"exp":"` + canary.TokenSecret + `"}`),
		"time before 1970":    tokenWithPayload(`{"exp":-1}`),
		"time beyond 9999":    tokenWithPayload(`{"exp":253402300800}`),
		"time beyond a float": tokenWithPayload(`{"exp":1e999}`),
		"subject an object":   tokenWithPayload(`{"sub":{"` + canary.TokenSecret + `":1}}`),
		"too long":            tokenWithPayload(`{"sub":"` + strings.Repeat("x", 64<<10) + `"}`),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := jwt.Parse(text)
			if err == nil {
				t.Fatal("parsed")
			}
			if diff := cmp.Diff(jwt.Claims{}, got); diff != "" {
				t.Error(diff)
			}
			canary.AssertAbsent(t, "the error", err.Error())
		})
	}
}

func TestServiceAccount(t *testing.T) {
	for subject, want := range map[string][2]string{
		"system:serviceaccount:team:app": {"team", "app"},
		"system:serviceaccount:team":     {},
		"system:serviceaccount::app":     {},
		"system:serviceaccount:team:":    {},
		"system:serviceaccounts:team:x":  {},
		"system:node:a":                  {},
		"":                               {},
	} {
		namespace, name, ok := jwt.Claims{Subject: subject}.ServiceAccount()
		if ok != (want[0] != "") || ok && [2]string{namespace, name} != want {
			t.Errorf("%q: got %q, %q, %v", subject, namespace, name, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{tokenWithPayload(`{"iss":"a","sub":"b","aud":["c"],"iat":1,"exp":2.5}`), tokenWithPayload(`{"aud":"c","exp":1e18}`), "a.b.c", "..", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		claims, err := jwt.Parse(text)
		switch {
		case err != nil:
			if err.Error() != "not a JSON Web Token" {
				t.Errorf("the error is %q", err)
			}
		case claims.Expires.Year() > 9999 || !claims.Expires.IsZero() && claims.Expires.Unix() < 0:
			t.Errorf("expires %v", claims.Expires)
		}
		claims.ServiceAccount()
	})
}

// TestClaimNamesAreCaseSensitive verifies that "AUD" is not parsed as "aud", although encoding/json
// would do so.
func TestClaimNamesAreCaseSensitive(t *testing.T) {
	payload := `{"aud":"registry.example","AUD":"elsewhere.example","sub":"a","Sub":"b","exp":1,"EXP":99}`
	claims, err := jwt.Parse("e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln")
	if err != nil || len(claims.Audience) != 1 || claims.Audience[0] != "registry.example" || claims.Subject != "a" || claims.Expires.Unix() != 1 {
		t.Errorf("got %+v, %v", claims, err)
	}
}

func TestForAPIServer(t *testing.T) {
	const issuer = "https://oidc.example/id/1"
	for _, tt := range []struct {
		audience []string
		want     string
	}{
		{nil, ""},
		{[]string{"registry.example"}, ""},
		{[]string{""}, ""},
		{[]string{"https://oidc.example/id/10", "https://oidc.example"}, ""},
		{[]string{"https://kubernetes.default.example", "kubernetes.default.svc2", "https://registry.example/kubernetes.default.svc"}, ""},
		{[]string{issuer}, issuer},
		{[]string{"registry.example", issuer}, issuer},
		{[]string{"registry.example", "https://kubernetes.default.svc"}, "https://kubernetes.default.svc"},
		{[]string{"kubernetes.default"}, "kubernetes.default"},
		{[]string{"https://kubernetes.default.svc.cluster.local:443/"}, "https://kubernetes.default.svc.cluster.local:443/"},
	} {
		if got := (jwt.Claims{Issuer: issuer, Audience: tt.audience}).APIServerAudience(); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.audience, got, tt.want)
		}
	}
	if got := (jwt.Claims{Audience: []string{""}}).APIServerAudience(); got != "" {
		t.Errorf("without an issuer: got %q", got)
	}
}

func TestWithoutAudience(t *testing.T) {
	const account = "system:serviceaccount:team:puller"
	for payload, want := range map[string]bool{
		`{"iss":"kubernetes/serviceaccount","sub":"` + account + `"}`: true,
		`{"sub":"` + account + `","aud":[]}`:                          true,
		`{"sub":"` + account + `","aud":null}`:                        true,
		`{"sub":"` + account + `","aud":"registry.example"}`:          false,
		`{"sub":"spiffe://example/puller"}`:                           false,
	} {
		claims, err := jwt.Parse("e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln")
		if got := claims.LacksAudience(); err != nil || got != want {
			t.Errorf("%s: got %v, %v", payload, got, err)
		}
	}
}

// TestAccess verifies the decoded permissions of a registry's token.
func TestAccess(t *testing.T) {
	const payload = `{"access":[{"type":"repository","name":"team/app","actions":["pull"]}]}`
	claims, err := jwt.Parse("e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".e30")
	if err != nil || len(claims.Access) != 1 || claims.Access[0].Name != "team/app" || claims.Access[0].Actions[0] != "pull" {
		t.Errorf("got %+v, %v", claims.Access, err)
	}
	if claims, err := jwt.Parse("e30.e30.e30"); err != nil || claims.Access != nil {
		t.Errorf("without: got %+v, %v", claims.Access, err)
	}
}
