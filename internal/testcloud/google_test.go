// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
)

// TestGoogle verifies that the simulated services accept the same requests as the real ones.
func TestGoogle(t *testing.T) {
	net := must.Get(testcloud.NewFakeNetwork())(t)
	defer net.Close()
	google := must.Get(testcloud.NewGoogle(net))(t)
	defer google.Close()
	google.Update(func(s *testcloud.GoogleState) { s.Dockercfg, s.SubjectToken = "{}", "subject" })
	const (
		sts         = "https://sts.googleapis.com/v1/token"
		impersonate = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/a@p.iam.gserviceaccount.com:generateAccessToken"
		good        = `{"grant_type":"urn:ietf:params:oauth:grant-type:token-exchange","audience":"a","scope":"s","subject_token":"subject",` +
			`"requested_token_type":"urn:ietf:params:oauth:token-type:access_token","subject_token_type":"urn:ietf:params:oauth:token-type:jwt"}`
		form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&audience=a&scope=s&subject_token=subject&" +
			"requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt"
	)
	metadata := func(path string) string { return google.URL() + path }
	for name, tt := range map[string]struct {
		address, header, body string
		want                  string // status, and part of the body
	}{
		"token":               {metadata(testcloud.GoogleTokenPath), "Metadata-Flavor: Google", "", `200 "access_token":"open-sesame","expires_in":3600`},
		"email":               {metadata(testcloud.GoogleEmailPath), "Metadata-Flavor: Google", "", "200 node@project.iam.gserviceaccount.com"},
		"attribute":           {metadata(testcloud.GoogleDockercfgPath), "Metadata-Flavor: Google", "", "200 {}"},
		"attribute not set":   {metadata(testcloud.GoogleDockercfgURLPath), "Metadata-Flavor: Google", "", "404 "},
		"no header":           {metadata(testcloud.GoogleTokenPath), "", "", "403 "},
		"metadata by POST":    {metadata(testcloud.GoogleTokenPath), "Metadata-Flavor: Google", "x", "405 "},
		"sts":                 {sts, "Content-Type: application/json", good, `200 "access_token":"open-sesame-federated"`},
		"sts by form":         {sts, "Content-Type: application/x-www-form-urlencoded", form, `200 "access_token":"open-sesame-federated"`},
		"sts, not JSON":       {sts, "Content-Type: application/json", "x", `400 "error":"invalid_request"`},
		"sts, grant":          {sts, "Content-Type: application/json", strings.Replace(good, "token-exchange", "x", 1), `400 "error":"unsupported_grant_type"`},
		"sts, type":           {sts, "Content-Type: application/json", strings.Replace(good, ":jwt", ":x", 1), `400 "error":"invalid_request"`},
		"sts, audience":       {sts, "Content-Type: application/json", strings.Replace(good, `"a"`, `""`, 1), `400 "error":"invalid_target"`},
		"sts, token":          {sts, "Content-Type: application/json", strings.Replace(good, `"subject"`, `"x"`, 1), `400 "error":"invalid_grant"`},
		"sts by GET":          {sts, "", "", "400 "},
		"impersonate":         {impersonate, "Authorization: Bearer open-sesame-federated", "{}", `200 "accessToken":"open-sesame-account"`},
		"impersonate, node":   {impersonate, "Authorization: Bearer open-sesame", "{}", `401 "status":"UNAUTHENTICATED"`},
		"impersonate, others": {strings.Replace(impersonate, "@p.iam", "@p.x", 1), "Authorization: Bearer open-sesame-federated", "{}", `403 "status":"PERMISSION_DENIED"`},
		"elsewhere":           {google.URL() + "/", "", "", "404 "},
	} {
		t.Run(name, func(t *testing.T) {
			method := http.MethodGet
			if tt.body != "" {
				method = http.MethodPost
			}
			req := must.Get(http.NewRequest(method, tt.address, strings.NewReader(tt.body)))(t)
			if key, value, ok := strings.Cut(tt.header, ": "); ok {
				req.Header.Set(key, value)
			}
			client := http.DefaultClient
			if req.URL.Scheme == "https" {
				client = &http.Client{Transport: net.Transport()}
			}
			resp := must.Get(client.Do(req))(t)
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			status, part, _ := strings.Cut(tt.want, " ")
			if got := resp.Status[:3]; got != status || !strings.Contains(string(body), part) {
				t.Errorf("status %s, %d bytes", got, len(body))
			}
		})
	}
	if strays := net.UnknownHosts(); len(strays) > 0 {
		t.Errorf("other hosts were called: %q", strays)
	}
}

// TestGoogleEnviron verifies that Environ sets the metadata host and the CA, and unsets the
// credentials.
func TestGoogleEnviron(t *testing.T) {
	net := must.Get(testcloud.NewFakeNetwork())(t)
	defer net.Close()
	google := must.Get(testcloud.NewGoogle(net))(t)
	defer google.Close()
	environ := google.Environ()
	for _, want := range []string{"GCE_METADATA_HOST=" + google.Addr(), "GOOGLE_APPLICATION_CREDENTIALS=", "SSL_CERT_FILE=" + net.CAFile()} {
		if !slices.Contains(environ, want) {
			t.Errorf("%s is missing", want)
		}
	}
}
