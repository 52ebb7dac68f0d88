// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/gcr"
)

// TestImpersonationFaults verifies how failures of the IAM credentials service are reported.
func TestImpersonationFaults(t *testing.T) {
	for _, f := range failureCases() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			w := newTestCloud(t)
			f.fault.Path = "iamcredentials."
			f.requests++ // the request to STS
			w.Inject(f.fault)
			p := w.newProvider(t, gcr.Options{STSAudience: "pool", Impersonate: true, Timeout: f.attemptTimeout()})
			_, err := getCredentials(t, p, podRequest("gcr.io/p/app", gcr.AnnotationAccount+"=puller@p.iam.gserviceaccount.com"))
			checkFailure(t, w, f, err, `registry "gcr.io": impersonate "puller@p.iam.gserviceaccount.com": POST `+
				"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/puller@p.iam.gserviceaccount.com:generateAccessToken: ",
				map[string]string{"403": "; grant the pod's identity roles/iam.workloadIdentityUser on the Google service account"})
		})
	}
}

// TestDockercfgFaults verifies how failures of both docker config servers are reported. Their
// responses contain passwords.
func TestDockercfgFaults(t *testing.T) {
	for _, f := range append(failureCases(), failureCase{"garbage", testcloud.Fault{Status: 200, Times: -1, Body: "<html>" + canary.TokenSecret}, "line 1, column 1: not JSON: looks like HTML or XML", 1}) {
		for _, flow := range []string{gcr.FlowDockercfg, gcr.FlowDockercfgURL} {
			t.Run(f.name+" by "+flow, func(t *testing.T) {
				t.Parallel()
				w := newTestCloud(t)
				files := testcloud.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { rw.Write([]byte("{}")) }))
				defer files.Close()
				w.Update(func(s *testcloud.GoogleState) { s.Dockercfg, s.DockercfgURL = "{}", files.URL()+"/d?"+canary.ArgSecret })
				failing := w.Server
				if flow == gcr.FlowDockercfgURL {
					failing = files
				}
				failing.Inject(f.fault)
				p, err := gcr.New(gcr.Options{Flow: flow, MetadataHost: w.Addr(), Backoff: time.Millisecond, Timeout: f.attemptTimeout()})
				if err != nil {
					t.Fatal(err)
				}
				_, err = p.GetCredentials(t.Context(), &plugin.Request{Image: "gcr.io/p/app"})
				if (err != nil) != (f.want != "") || err != nil && !strings.Contains(err.Error(), f.want) {
					t.Errorf("got error %v, want %q", err, f.want)
				}
				if err != nil {
					canary.AssertAbsent(t, "the error", err.Error())
				}
				if got := len(failing.Requests()); got != f.requests {
					t.Errorf("asked %d times, want %d", got, f.requests)
				}
			})
		}
	}
}

// TestNoDefaultCredentials verifies that application default credentials are not used.
func TestNoDefaultCredentials(t *testing.T) {
	home := t.TempDir()
	key := filepath.Join(home, "application_default_credentials.json")
	text := `{"type":"authorized_user","client_id":"c","client_secret":"` + canary.PasswordSecret + `","refresh_token":"` + canary.TokenSecret + `"}`
	must.Do(t, os.WriteFile(key, []byte(text), 0o600))
	for name, value := range map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": key, "CLOUDSDK_CONFIG": home, "HOME": home} {
		t.Setenv(name, value)
	}
	w := newTestCloud(t)
	if got := mustGetCredentials(t, w.newProvider(t, gcr.Options{}), &plugin.Request{Image: "gcr.io/p/app"}); got.Password != "open-sesame" {
		t.Error("got another identity than the node's")
	}
	if got := w.RequestLines(); len(got) != 1 || len(w.net.UnknownHosts()) > 0 {
		t.Errorf("asked %q and %q", got, w.net.UnknownHosts())
	}
}
