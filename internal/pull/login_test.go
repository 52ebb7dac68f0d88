// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
)

// TestPullAsContainerd verifies pulls from registries and with credentials for which containerd's rules matter.
func TestPullAsContainerd(t *testing.T) {
	const basic, bearer, elsewhere = `Basic realm="x"`, `Bearer realm="http://HOST/token"`, `Bearer realm="TOKENS"`
	nameless := regcred.Credential{Provider: "nameless", Password: plugin.NewSecret(canary.PasswordSecret)}
	const noBasic = "the registry requires Basic authentication, but the credential has no user name or no password"
	for name, tt := range map[string]struct {
		challenges []string // none: open
		ping       int      // status of /v2/; 0 means as for the content
		accepts    string
		cred       regcred.Credential
		says       string // of the error; "" means that the pull succeeds
	}{
		"token server at another port":        {[]string{elsewhere}, 0, "Bearer t", goodCredential, ""},
		"Basic before Bearer":                 {[]string{basic, bearer}, 0, "Bearer t", goodCredential, ""},
		"/v2/ 404, Basic":                     {[]string{basic}, 404, "Basic ", goodCredential, ""},
		"/v2/ 403, Bearer":                    {[]string{bearer}, 403, "Bearer t", goodCredential, ""},
		"/v2/ 200, Basic":                     {[]string{basic}, 200, "Basic ", goodCredential, ""},
		"/v2/ to a sign-in page":              {[]string{basic}, 302, "Basic ", goodCredential, ""},
		"no user name, open":                  {nil, 0, "", nameless, ""},
		"no user name, tokens for everyone":   {[]string{bearer}, 0, "Bearer t", nameless, ""},
		"no user name, Basic":                 {[]string{basic}, 0, "Basic ", nameless, noBasic},
		"no password, tokens for everyone":    {[]string{bearer}, 0, "Bearer t", regcred.Credential{Username: "u"}, ""},
		"no password, Basic":                  {[]string{basic}, 0, "Basic ", regcred.Credential{Username: "u"}, noBasic},
		"no user name, tokens not for anyone": {[]string{bearer}, 0, "Bearer other", nameless, "the credential has no user name, so the pull is anonymous"},
	} {
		t.Run(name, func(t *testing.T) {
			reg, image, _ := startRegistry(t, testregistry.AuthNone)
			tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"access_token":"t","token":"t"}`) }))
			defer tokens.Close()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				user, _, sent := r.BasicAuth()
				if sent && user == "" {
					t.Errorf("%s got a credential without a user name", r.URL)
				}
				switch auth := r.Header.Get("Authorization"); {
				case r.URL.Path == "/token":
					io.WriteString(w, `{"access_token":"t","token":"t"}`)
				case r.URL.Path == "/v2/" && tt.ping != 0:
					w.Header().Set("Location", "/login.html")
					w.WriteHeader(tt.ping)
				case tt.challenges == nil, auth != "" && strings.HasPrefix(auth, tt.accepts):
					reg.ServeHTTP(w, r)
				default:
					for _, c := range tt.challenges {
						w.Header().Add("WWW-Authenticate", strings.NewReplacer("HOST", r.Host, "TOKENS", tokens.URL).Replace(c))
					}
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
			defer srv.Close()
			image = strings.TrimPrefix(srv.URL, "http://") + strings.TrimPrefix(image, reg.Addr())
			dir := t.TempDir()
			if tt.says == "" {
				mustPull(t, &Puller{Retry: fastRetry}, image, []regcred.Credential{tt.cred}, dir)
			} else if err := mustFail(t, &Puller{Retry: fastRetry}, image, []regcred.Credential{tt.cred}, dir); !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %q does not say %q", err, tt.says)
			}
		})
	}
}
