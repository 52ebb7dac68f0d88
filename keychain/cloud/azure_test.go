// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cloud_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/keychain/cloud"
	"github.com/regcred/regcred/provider/acr"
)

const acrImage = "team.azurecr.io/app:v1"

func newAzure(t *testing.T) (*testCloud, *testcloud.Azure) {
	w := newTestCloud(t)
	azure := testcloud.NewAzure()
	t.Cleanup(azure.Close)
	net := newFakeNetwork(t)
	azure.AddHosts(net)
	net.Handle("imds.test", azure)
	w.server, w.metadata, w.image = azure.Server, "/metadata/", acrImage
	w.passwordPath, w.registry = "/oauth2/exchange", func(i int) string { return fmt.Sprintf("team%d.azurecr.io", i) }
	w.provider = func(more map[string]string) cloud.Provider {
		environ := map[string]string{}
		for _, entry := range azure.Environ() {
			name, value, _ := strings.Cut(entry, "=")
			environ[name] = value
		}
		environ["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = "http://imds.test"
		maps.Copy(environ, more)
		transport := net.Transport()
		t.Cleanup(transport.CloseIdleConnections)
		return requireProvider(acr.InPod(acr.Options{Transport: transport, Timeout: 10 * time.Second, Backoff: time.Millisecond, Logger: w.log,
			Getenv: func(name string) string { return environ[name] }}))
	}
	return w, azure
}

// webhookVariables returns the variables that the webhook of Azure Workload Identity sets.
func webhookVariables(file string) map[string]string {
	return map[string]string{
		"AZURE_CLIENT_ID": "client", "AZURE_TENANT_ID": "tenant", "AZURE_FEDERATED_TOKEN_FILE": file,
		"AZURE_AUTHORITY_HOST": "https://login.microsoftonline.com/",
	}
}

// TestAzure verifies the identity that each configuration uses.
func TestAzure(t *testing.T) {
	for name, tt := range map[string]struct {
		environ func(t *testing.T) map[string]string
		token   string // path of the token request
		id      string // client ID in the token request
		tenant  string // tenant in the exchange for a registry token
	}{
		"nothing": {func(*testing.T) map[string]string { return nil }, "imds.test/metadata/identity/oauth2/token", "", ""},
		"a managed identity": {func(*testing.T) map[string]string {
			return map[string]string{"AZURE_CLIENT_ID": "client", "AZURE_TENANT_ID": "tenant"}
		}, "imds.test/metadata/identity/oauth2/token", "client", "tenant"},
		"workload identity": {func(t *testing.T) map[string]string {
			return webhookVariables(writeTokenFile(t, canary.TokenSecret+"-pod\n"))
		},
			"login.microsoftonline.com/tenant/oauth2/v2.0/token", "client", "tenant"},
		"in another cloud": {func(t *testing.T) map[string]string {
			environ := webhookVariables(writeTokenFile(t, canary.TokenSecret+"-pod"))
			environ["AZURE_AUTHORITY_HOST"] = "https://login.microsoftonline.us"
			return environ
		}, "login.microsoftonline.us/tenant/oauth2/v2.0/token", "client", "tenant"},
	} {
		t.Run(name, func(t *testing.T) {
			w, azure := newAzure(t)
			azure.Update(func(s *testcloud.AzureState) {
				s.ClientAssertion, s.RefreshToken = canary.TokenSecret+"-pod", "open-sesame"
			})
			got, err := w.lookUpPassword(w.newKeyring(tt.environ(t)), w.image)
			if err != nil || got != "open-sesame" {
				t.Fatalf("got another password, or %v", err)
			}
			var asked []string
			for _, r := range azure.Requests() {
				switch form := r.Form(); {
				case strings.HasSuffix(r.Path, "/token"):
					asked = append(asked, r.Host+r.Path+" "+form.Get("client_id")+r.Query.Get("client_id"))
				case strings.HasSuffix(r.Path, "/exchange"):
					asked = append(asked, "exchange "+form.Get("tenant"))
				}
			}
			want := tt.token + " " + tt.id + ", exchange " + tt.tenant
			if got := strings.Join(asked, ", "); got != want {
				t.Errorf("asked %q, want %q", got, want)
			}
		})
	}
}

func TestAzureFails(t *testing.T) {
	const step = "get a token from Microsoft Entra ID"
	for name, tt := range map[string]struct {
		environ func(t *testing.T) map[string]string
		fault   *testcloud.Fault
		want    []string
	}{
		"no token file": {func(t *testing.T) map[string]string { return webhookVariables(filepath.Join(t.TempDir(), "none")) }, nil,
			[]string{"AZURE_FEDERATED_TOKEN_FILE", "no such file or directory"}},
		"empty token file": {func(t *testing.T) map[string]string { return webhookVariables(writeTokenFile(t, "")) }, nil,
			[]string{"AZURE_FEDERATED_TOKEN_FILE", "empty or not a token"}},
		"no such tenant": {func(t *testing.T) map[string]string {
			environ := webhookVariables(writeTokenFile(t, canary.TokenSecret+"-pod"))
			environ["AZURE_TENANT_ID"] = "other"
			return environ
		}, nil, []string{step, "AADSTS90002", "check AZURE_TENANT_ID and AZURE_CLIENT_ID"}},
		"another's token": {func(t *testing.T) map[string]string { return webhookVariables(writeTokenFile(t, canary.TokenSecret)) }, nil,
			[]string{step, "status 401 Unauthorized (invalid_client, AADSTS700213)", "issuer, subject and audience"}},
		"an authority without TLS": {func(t *testing.T) map[string]string {
			environ := webhookVariables(writeTokenFile(t, canary.TokenSecret+"-pod"))
			environ["AZURE_AUTHORITY_HOST"] = "http://login.microsoftonline.com"
			return environ
		}, nil, []string{"AZURE_AUTHORITY_HOST is not an https URL; refusing to send a secret to it"}},
		"Entra is down": {func(t *testing.T) map[string]string {
			return webhookVariables(writeTokenFile(t, canary.TokenSecret+"-pod"))
		},
			&testcloud.Fault{Path: "login.microsoftonline.com", Times: -1, Status: http.StatusInternalServerError},
			[]string{step, "status 500 Internal Server Error, 3 times"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, azure := newAzure(t)
			azure.Update(func(s *testcloud.AzureState) { s.ClientAssertion, s.Tenant = canary.TokenSecret+"-pod", "tenant" })
			if tt.fault != nil {
				azure.Inject(*tt.fault)
			}
			w.checkError(tt.environ(t), tt.want...)
		})
	}
}

// TestAzureRotates verifies that the token file is read again for each token exchange.
func TestAzureRotates(t *testing.T) {
	w, azure := newAzure(t)
	token := writeTokenFile(t, canary.TokenSecret+"-1")
	k := w.newKeyring(webhookVariables(token))
	for i, assertion := range []string{canary.TokenSecret + "-1", canary.TokenSecret + "-2"} {
		writeFile(t, token, assertion)
		azure.Update(func(s *testcloud.AzureState) { s.ClientAssertion, s.RefreshToken = assertion, "open-sesame" })
		if _, err := w.lookUpPassword(k, []string{acrImage, "other.azurecr.io/app"}[i]); err != nil {
			t.Error(err)
		}
	}
}
