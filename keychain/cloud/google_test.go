// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cloud_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/keychain/cloud"
	"github.com/regcred/regcred/provider/gcr"
)

const (
	gcrImage = "europe-docker.pkg.dev/project/team/app:v1"
	workloadPool     = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/cluster"
)

func newGoogle(t *testing.T) (*testCloud, *testcloud.Google) {
	w := newTestCloud(t)
	net := newFakeNetwork(t)
	google := must.Get(testcloud.NewGoogle(net))(t)
	t.Cleanup(google.Close)
	w.server, w.metadata, w.image = google.Server, "/computeMetadata/", gcrImage
	w.passwordPath, w.registry = testcloud.GoogleTokenPath, func(i int) string { return fmt.Sprintf("r%d-docker.pkg.dev", i) }
	w.provider = func(more map[string]string) cloud.Provider {
		environ := map[string]string{gcr.EnvMetadataHost: google.Addr()}
		maps.Copy(environ, more)
		transport := net.Transport()
		t.Cleanup(transport.CloseIdleConnections)
		return requireProvider(gcr.InPod(gcr.Options{Transport: transport, Backoff: time.Millisecond, Logger: w.log,
			Getenv: func(name string) string { return environ[name] }}))
	}
	return w, google
}

// federationConfig writes a workload identity federation configuration, and returns the variable
// that names it. more contains additional JSON members.
func federationConfig(t *testing.T, source, more string) map[string]string {
	t.Helper()
	return map[string]string{gcr.EnvCredentials: writeTokenFile(t, fmt.Sprintf(`{"universe_domain":"googleapis.com","type":"external_account","audience":%q,
		"subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"https://sts.googleapis.com/v1/token",
		"credential_source":%s%s}`, workloadPool, source, more))}
}

func credentialSourceJSON(file string) string { return fmt.Sprintf(`{"file":%q}`, file) }

// TestGoogle verifies the identity that each configuration uses, and that the metadata server is
// called only without a configuration.
func TestGoogle(t *testing.T) {
	const account = `,"service_account_impersonation_url":"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/pull%40project.iam.gserviceaccount.com:generateAccessToken"`
	for name, tt := range map[string]struct {
		environ  func(t *testing.T) map[string]string
		password string
		node     bool
	}{
		"nothing": {func(*testing.T) map[string]string { return nil }, "open-sesame", true},
		"federation": {func(t *testing.T) map[string]string {
			return federationConfig(t, credentialSourceJSON(writeTokenFile(t, canary.TokenSecret+"-pod\n")), "")
		}, "open-sesame-federated", false},
		"in a member": {func(t *testing.T) map[string]string {
			token := writeTokenFile(t, `{"id":"`+canary.TokenSecret+`-pod"}`)
			return federationConfig(t, fmt.Sprintf(`{"file":%q,"format":{"type":"json","subject_token_field_name":"id"}}`, token), "")
		}, "open-sesame-federated", false},
		"impersonation": {func(t *testing.T) map[string]string {
			return federationConfig(t, credentialSourceJSON(writeTokenFile(t, canary.TokenSecret+"-pod")), account)
		}, "open-sesame-account", false},
	} {
		t.Run(name, func(t *testing.T) {
			w, google := newGoogle(t)
			google.Update(func(s *testcloud.GoogleState) { s.Audience, s.SubjectToken = workloadPool, canary.TokenSecret+"-pod" })
			got, err := w.lookUpPassword(w.newKeyring(tt.environ(t)), w.image)
			if err != nil || got != tt.password {
				t.Fatalf("got another password than %q, or %v", tt.password, err)
			}
			if n := w.metadataRequests(); (n > 0) != tt.node {
				t.Errorf("the metadata server was called %d times", n)
			}
		})
	}
}

func TestGoogleFails(t *testing.T) {
	const configuration = "credential configuration "
	for name, tt := range map[string]struct {
		environ func(t *testing.T) map[string]string
		fault   *testcloud.Fault
		want    []string
	}{
		"no configuration": {func(t *testing.T) map[string]string {
			return map[string]string{gcr.EnvCredentials: filepath.Join(t.TempDir(), "none")}
		}, nil, []string{configuration, "no such file or directory"}},
		"a key": {func(t *testing.T) map[string]string {
			return map[string]string{gcr.EnvCredentials: writeTokenFile(t, `{"type":"service_account","private_key":"`+canary.PasswordSecret+`"}`)}
		}, nil, []string{configuration, `unsupported type "service_account"`}},
		"no JSON": {func(t *testing.T) map[string]string {
			return map[string]string{gcr.EnvCredentials: writeTokenFile(t, canary.PasswordSecret)}
		}, nil, []string{configuration, "not valid JSON"}},
		"a program": {func(t *testing.T) map[string]string {
			return federationConfig(t, `{"executable":{"command":"/bin/true"}}`, "")
		}, nil, []string{"credential_source has no file; tokens from executables, URLs and cloud providers are not supported"}},
		"another's STS": {func(t *testing.T) map[string]string {
			return federationConfig(t, credentialSourceJSON(writeTokenFile(t, canary.TokenSecret)), `,"token_url":"https://sts.googleapis.com.evil.example/v1/token"`)
		}, nil, []string{"refusing to send a token to token_url, because its host"}},
		"another service of Google's": {func(t *testing.T) map[string]string {
			return federationConfig(t, credentialSourceJSON(writeTokenFile(t, canary.TokenSecret)), `,"token_url":"https://storage.googleapis.com/upload/storage/v1/b/theirs/o?uploadType=media&name=sts"`)
		}, nil, []string{"refusing to send a token to token_url, because its host", `does not belong to Google's service "sts"`}},
		"another service for the account": {func(t *testing.T) map[string]string {
			return federationConfig(t, credentialSourceJSON(writeTokenFile(t, canary.TokenSecret)), `,"service_account_impersonation_url":"https://sts.googleapis.com/v1/token"`)
		}, nil, []string{"refusing to send a token to service_account_impersonation_url, because its host", `does not belong to Google's service "iamcredentials"`}},
		"another's service account": {func(t *testing.T) map[string]string {
			return federationConfig(t, credentialSourceJSON(writeTokenFile(t, canary.TokenSecret)), `,"service_account_impersonation_url":"http://iamcredentials.googleapis.com/x:generateAccessToken"`)
		}, nil, []string{"service_account_impersonation_url is not an https URL"}},
		"no token file": {func(t *testing.T) map[string]string {
			return federationConfig(t, credentialSourceJSON(filepath.Join(t.TempDir(), "none")), "")
		}, nil, []string{configuration, "credential_source: ", "no such file or directory"}},
		"empty token file": {func(t *testing.T) map[string]string {
			return federationConfig(t, credentialSourceJSON(writeTokenFile(t, "\n")), "")
		}, nil, []string{"empty or not a token"}},
		"no such member": {func(t *testing.T) map[string]string {
			return federationConfig(t, fmt.Sprintf(`{"file":%q,"format":{"type":"json","subject_token_field_name":"id"}}`, writeTokenFile(t, `{"ID":"x"}`)), "")
		}, nil, []string{"empty or not a token"}},
		"STS refuses": {func(t *testing.T) map[string]string {
			return federationConfig(t, credentialSourceJSON(writeTokenFile(t, canary.TokenSecret)), "")
		}, &testcloud.Fault{Path: "sts.googleapis.com", Times: -1, Status: http.StatusForbidden, Body: `{"error":"access_denied","error_description":"` + canary.TokenSecret + `"}`},
			[]string{"exchange the service-account token", "status 403 Forbidden", "check that the workload identity pool has a provider with the token's issuer and audience"}},
		"STS is down": {func(t *testing.T) map[string]string {
			return federationConfig(t, credentialSourceJSON(writeTokenFile(t, canary.TokenSecret)), "")
		}, &testcloud.Fault{Path: "sts.googleapis.com", Times: -1, Status: http.StatusInternalServerError},
			[]string{"exchange the service-account token", "status 500 Internal Server Error, 3 times"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, google := newGoogle(t)
			if tt.fault != nil {
				google.Inject(*tt.fault)
			}
			w.checkError(tt.environ(t), tt.want...)
		})
	}
}

// TestGoogleRotates verifies that the token file is read again for each token exchange.
func TestGoogleRotates(t *testing.T) {
	w, google := newGoogle(t)
	token := writeTokenFile(t, canary.TokenSecret+"-1")
	k := w.newKeyring(federationConfig(t, credentialSourceJSON(token), ""))
	for i, subject := range []string{canary.TokenSecret + "-1", canary.TokenSecret + "-2"} {
		writeFile(t, token, subject)
		google.Update(func(s *testcloud.GoogleState) { s.SubjectToken = subject })
		if _, err := w.lookUpPassword(k, []string{gcrImage, "eu.gcr.io/project/app"}[i]); err != nil {
			t.Error(err)
		}
	}
}
