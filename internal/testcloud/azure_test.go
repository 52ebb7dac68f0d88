// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
)

// sendAzureRequest sends a request and returns the status and the body.
func sendAzureRequest(t *testing.T, client *http.Client, address string, form url.Values, header ...string) (int, map[string]any) {
	t.Helper()
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	req := must.Get(http.NewRequest(method, address, body))(t)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := must.Get(client.Do(req))(t)
	defer resp.Body.Close()
	answer := map[string]any{"challenge": resp.Header.Get("Www-Authenticate")}
	json.NewDecoder(resp.Body).Decode(&answer)
	return resp.StatusCode, answer
}

// TestAzure verifies that each endpoint accepts a valid request, and rejects a request in which a
// part is missing.
func TestAzure(t *testing.T) {
	az := testcloud.NewAzure()
	defer az.Close()
	az.Update(func(s *testcloud.AzureState) {
		s.ClientID, s.Tenant, s.ClientAssertion, s.Metadata, s.ArcKey = "client-1", "tenant-1", canary.TokenSecret, "[]", canary.TokenSecret
	})
	net := must.Get(testcloud.NewFakeNetwork())(t)
	defer net.Close()
	az.AddHosts(net)
	client := &http.Client{Transport: net.Transport()}
	const resource = "https://containerregistry.azure.net"
	access := canary.TokenSecret + "-access"
	for _, test := range []struct {
		name, address string
		form          url.Values // nil means a GET request
		query         url.Values
		header        []string
		member        string // member of the response to check
	}{
		{"IMDS", az.URL() + "/metadata/identity/oauth2/token", nil,
			url.Values{"api-version": {"2018-02-01"}, "resource": {resource}, "client_id": {"client-1"}}, []string{"Metadata", "true"}, "access_token"},
		{"App Service", az.URL() + "/appservice/token", nil,
			url.Values{"api-version": {"2019-08-01"}, "resource": {resource}, "client_id": {"client-1"}}, []string{"X-Identity-Header", canary.TokenSecret + "-header"}, "access_token"},
		{"Azure Arc", az.URL() + "/arc/token", nil,
			url.Values{"api-version": {"2020-06-01"}, "resource": {resource}, "client_id": {"client-1"}},
			[]string{"Authorization", "Basic " + canary.TokenSecret, "Metadata", "true"}, "access_token"},
		{"Entra ID", "https://login.microsoftonline.com/tenant-1/oauth2/v2.0/token", url.Values{
			"grant_type": {"client_credentials"}, "client_id": {"client-1"}, "client_assertion": {canary.TokenSecret}, "scope": {resource + "/.default"},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}}, nil, nil, "access_token"},
		{"exchange", "https://foo.azurecr.io/oauth2/exchange", url.Values{"grant_type": {"access_token_refresh_token"}, "service": {"foo.azurecr.io"},
			"tenant": {"tenant-1"}, "access_token": {access}, "refresh_token": {access}}, nil, nil, "refresh_token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ask := func(form, query url.Values, header []string) (int, map[string]any) {
				client := client
				if strings.HasPrefix(test.address, az.URL()) {
					client = http.DefaultClient // the fake network has no handler for loopback
				}
				return sendAzureRequest(t, client, test.address+"?"+query.Encode(), form, header...)
			}
			status, answer := ask(test.form, test.query, test.header)
			token, _ := answer[test.member].(string)
			if status != http.StatusOK || token == "" {
				t.Fatalf("status %d, error %v", status, answer["error"])
			}
			if test.member == "refresh_token" {
				if claims, err := jwt.Parse(token); err != nil || time.Until(claims.Expires) < 2*time.Hour {
					t.Errorf("it ends at %v, error %v", claims.Expires, err)
				}
			}
			for _, values := range []url.Values{test.form, test.query} {
				for name, value := range values {
					delete(values, name)
					if status, _ := ask(test.form, test.query, test.header); status < 400 {
						t.Errorf("without %s: status %d", name, status)
					}
					values[name] = value
				}
			}
			if test.header != nil {
				if status, _ := ask(test.form, test.query, nil); status != http.StatusUnauthorized {
					t.Errorf("without %s: status %d", test.header[0], status)
				}
			}
		})
	}
	status, answer := sendAzureRequest(t, client, "https://foo.azurecr.io/v2/", nil)
	if want := `Bearer realm="https://foo.azurecr.io/oauth2/token",service="foo.azurecr.io"`; status != 401 || answer["challenge"] != want {
		t.Errorf("login server: status %d, challenge %v", status, answer["challenge"])
	}
	if len(net.UnknownHosts()) > 0 {
		t.Errorf("called other hosts: %q", net.UnknownHosts())
	}
}
