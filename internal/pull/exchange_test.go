// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
)

// These constants are secrets that the token server issues, and the signature of a redirect.
const (
	bearerToken  = canary.TokenSecret + ".bearer/+"
	refreshToken = canary.TokenSecret + ".refresh"
	idToken      = canary.TokenSecret + ".id"
	signatureType    = canary.ArgSecret + "%2Fsigned"
)

// echoResponses returns responses with which a registry can return a secret to the client. The
// keys are test names.
func echoResponses() map[string]func(w http.ResponseWriter, r *http.Request, secret string) {
	list := map[string]func(w http.ResponseWriter, r *http.Request, secret string){}
	for _, status := range []int{400, 401, 403, 404, 500} {
		list[fmt.Sprintf("%d with a message", status)] = func(w http.ResponseWriter, r *http.Request, secret string) {
			w.Header().Set("Warning", `299 - "`+secret+`"`)
			w.Header().Set("Retry-After", secret)
			w.WriteHeader(status)
			raw, _ := json.Marshal(map[string]any{"errors": []map[string]any{{"code": secret, "message": "not with " + secret, "detail": secret}}})
			_, _ = w.Write(raw)
		}
		list[fmt.Sprintf("%d in plain text", status)] = func(w http.ResponseWriter, r *http.Request, secret string) {
			w.WriteHeader(status)
			fmt.Fprint(w, secret)
		}
	}
	for name, to := range map[string]string{
		"without TLS":          "http://elsewhere.example.com/x?X-Amz-Signature=",
		"of another scheme":    "ftp://elsewhere.example.com/x?sig=",
		"of no address":        "//elsewhere.example.com/%zz?sig=",
		"with a user":          "ftp://user:",
		"to nobody":            "https://gone.example.com/", // there is no such host
		"to nobody, signed":    "https://gone.example.com/x?X-Goog-Signature=",
		"with a fragment":      "ftp://elsewhere.example.com/x#access_token=",
		"to this machine":      "https://127.0.0.1/x?sig=",
		"to another, in turns": "https://other.example.com/x?sig=",
	} {
		list["redirect "+name] = func(w http.ResponseWriter, r *http.Request, secret string) {
			w.Header().Set("Location", to+url.QueryEscape(secret)+map[bool]string{true: "@elsewhere.example.com/"}[strings.HasSuffix(to, ":")])
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	}
	list["challenge"] = func(w http.ResponseWriter, r *http.Request, secret string) {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error=%q,service=%q`, secret, secret))
		w.WriteHeader(401)
	}
	return list
}

// TestEchoes verifies that errors do not contain secrets that the registry returns in a
// response to any step of a pull.
func TestEchoes(t *testing.T) {
	secrets := map[string]string{
		"password":  canary.PasswordSecret,
		"pair":      basicAuth(&goodCredential),
		"token":     bearerToken,
		"refresh":   refreshToken,
		"identity":  idToken,
		"signature": signatureType,
	}
	steps := []struct {
		path  string
		there []string // secrets that the registry knows at this step
	}{
		{"/v2/", []string{"password", "pair"}},
		{"/token", []string{"password", "pair"}},
		{"/v2/x/manifests/v1", []string{"password", "pair", "token", "refresh", "identity"}},
		{"/signed", slices.Collect(maps.Keys(secrets))},
	}
	list := echoResponses()
	for _, s := range steps {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			var sent []string
			for _, what := range s.there {
				sent = append(sent, secrets[what])
			}
			step, secret := s.path, strings.Join(sent, " ")
			t.Run(step+" "+name, func(t *testing.T) {
				n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.URL.Path == step:
						list[name](w, r, secret)
					case r.Host == "other.example.com":
						list["403 with a message"](w, r, r.URL.RawQuery+" "+secret)
					case r.URL.Path == "/v2/":
						w.Header().Set("WWW-Authenticate", `Bearer realm="https://auth.example.com/token",service="s"`)
						w.WriteHeader(401)
					case r.URL.Path == "/token":
						_ = json.NewEncoder(w).Encode(map[string]string{"token": bearerToken, "refresh_token": refreshToken, "id_token": idToken})
					default:
						http.Redirect(w, r, "https://example.com/signed?X-Amz-Signature="+signatureType, http.StatusTemporaryRedirect)
					}
				})
				tr := n.tls
				n.tls = roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.URL.Host == "gone.example.com" {
						return nil, fmt.Errorf("no route to %s", r.URL.Host)
					}
					return tr.RoundTrip(r)
				})
				err := mustFail(t, &Puller{Transport: n, Retry: fastRetry}, "example.com/x:v1", []regcred.Credential{goodCredential, devCredential}, t.TempDir())
				said := fmt.Sprintf("%v %+v %#v", err, err.Tries, err.Tries[0].Err)
				raw, _ := json.Marshal(err.Tries)
				said += string(raw)
				canary.AssertAbsent(t, "a failed pull", said)
				for _, secret := range sent {
					for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), strings.TrimRight(secret, "=")} {
						if strings.Contains(said, form) {
							t.Errorf("%q stands in %s", form, said)
							break
						}
					}
				}
			})
		}
	}
}

// TestFloodOfSecrets verifies that a registry cannot make an error contain the password by
// sending many other secrets. The list of secrets to redact has a limited size.
func TestFloodOfSecrets(t *testing.T) {
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v2/":
		case r.URL.RawQuery == "":
			http.Redirect(w, r, "https://example.com/x?signature="+strings.Repeat("q", 1<<20), http.StatusTemporaryRedirect)
		default:
			echoResponses()["403 with a message"](w, r, canary.PasswordSecret+" "+basicAuth(&goodCredential))
		}
	})
	err := mustFail(t, &Puller{Transport: n, Retry: fastRetry}, "example.com/x:v1", []regcred.Credential{goodCredential}, t.TempDir())
	if err.Tries[0].Status != http.StatusForbidden { // status of the response with the password; mustFail checks that the error does not contain it
		t.Errorf("it did not come as far as the echo: %v", err)
	}
}
