// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/gcr"
)

// TestIdentityTable verifies which identity is used, depending on flags, annotations and token. If
// an identity fails, no other identity is used.
func TestIdentityTable(t *testing.T) {
	const enable, account = gcr.AnnotationEnable, gcr.AnnotationAccount
	provider := gcr.Options{IdentityProvider: clusterIssuer, ProjectID: "p"}
	strict := gcr.Options{IdentityProvider: clusterIssuer, ProjectID: "p", RequireWorkloadIdentity: true}
	audience := gcr.Options{STSAudience: "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b"}
	impersonate := gcr.Options{STSAudience: "pool", Impersonate: true}
	const noToken, notAnnotated = "the pod pulls as its service account, but the request has no service-account token", "workload identity is required"
	for name, tt := range map[string]struct {
		opts        gcr.Options
		annotations []string
		noToken     bool
		want        string // password, or part of the error
	}{
		"no provider":                    {want: "open-sesame"},
		"no provider, annotated":         {annotations: []string{enable + "=true"}, want: "open-sesame"},
		"no provider, no token":          {noToken: true, want: "open-sesame"},
		"provider, no annotation":        {opts: provider, want: "open-sesame"},
		"provider, annotation True":      {opts: provider, annotations: []string{enable + "=True"}, want: "open-sesame"},
		"provider, annotation blank":     {opts: provider, annotations: []string{enable + "= true"}, want: "open-sesame"},
		"provider, annotation false":     {opts: provider, annotations: []string{enable + "=false"}, want: "open-sesame"},
		"provider, no pod":               {opts: provider, noToken: true, want: "open-sesame"},
		"provider, annotated":            {opts: provider, annotations: []string{enable + "=true"}, want: "open-sesame-federated"},
		"provider, annotated, no token":  {opts: provider, annotations: []string{enable + "=true"}, noToken: true, want: noToken},
		"strict, annotated":              {opts: strict, annotations: []string{enable + "=true"}, want: "open-sesame-federated"},
		"strict, no annotation":          {opts: strict, want: notAnnotated},
		"strict, annotation True":        {opts: strict, annotations: []string{enable + "=True"}, want: notAnnotated},
		"strict, no pod":                 {opts: strict, noToken: true, want: notAnnotated},
		"audience":                       {opts: audience, want: "open-sesame-federated"},
		"audience, annotation false":     {opts: audience, annotations: []string{enable + "=false"}, want: "open-sesame-federated"},
		"audience, no token":             {opts: audience, noToken: true, want: noToken},
		"impersonation":                  {opts: impersonate, annotations: []string{account + "=a@p.iam.gserviceaccount.com"}, want: "open-sesame-account"},
		"impersonation, not annotated":   {opts: impersonate, want: "open-sesame-federated"},
		"impersonation, no such account": {opts: impersonate, annotations: []string{account + "=a@example.com"}, want: "status 403 Forbidden (PERMISSION_DENIED)"},
		"impersonation, not asked for":   {opts: audience, annotations: []string{account + "=a@p.iam.gserviceaccount.com"}, want: "open-sesame-federated"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t)
			req := podRequest("us-docker.pkg.dev/p/r/app", tt.annotations...)
			if tt.noToken {
				req.ServiceAccountToken = plugin.Secret{}
			}
			got, err := getCredentials(t, w.newProvider(t, tt.opts), req)
			if err != nil {
				if !strings.HasPrefix(err.Error(), `registry "us-docker.pkg.dev": `) || !strings.Contains(err.Error(), tt.want) {
					t.Error(err)
				}
			} else if got.Password != tt.want || got.Scope != plugin.CacheRegistry || got.Duration != "30m0s" && tt.want != "open-sesame-account" {
				t.Errorf("got %+v", got)
			}
			hosts := map[string]string{
				"open-sesame": w.Addr(), "open-sesame-federated": "sts.googleapis.com",
				"open-sesame-account": "sts.googleapis.com iamcredentials.googleapis.com", noToken: "", notAnnotated: "",
			}
			var asked []string
			for _, r := range w.Requests() {
				asked = append(asked, r.Host)
			}
			if want, known := hosts[tt.want]; known && strings.Join(asked, " ") != want {
				t.Errorf("asked %q, want %q", asked, want)
			}
		})
	}
}

// TestExchange verifies the request to STS.
func TestExchange(t *testing.T) {
	for name, tt := range map[string]struct {
		opts     gcr.Options
		audience string
		host     string
	}{
		"cluster":  {gcr.Options{IdentityProvider: clusterIssuer, ProjectID: "p"}, "identitynamespace:p.svc.id.goog:" + clusterIssuer, "sts.googleapis.com"},
		"audience": {gcr.Options{STSAudience: "//iam.googleapis.com/x"}, "//iam.googleapis.com/x", "sts.googleapis.com"},
		"both":     {gcr.Options{STSAudience: "//iam.googleapis.com/x", IdentityProvider: clusterIssuer, ProjectID: "p"}, "//iam.googleapis.com/x", "sts.googleapis.com"},
		"universe": {gcr.Options{STSAudience: "a", UniverseDomain: "apis.example"}, "a", "sts.apis.example"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t)
			w.AddHosts("apis.example")
			w.Update(func(s *testcloud.GoogleState) { s.SubjectToken, s.Audience = podToken().Reveal(), tt.audience })
			mustGetCredentials(t, w.newProvider(t, tt.opts), podRequest("gcr.io/p/app", gcr.AnnotationEnable+"=true"))
			if len(w.Requests()) != 1 {
				t.Fatalf("asked %q", w.RequestLines())
			}
			r := w.Requests()[0]
			if got, want := r.String()+" "+r.Header.Get("Content-Type"), "POST "+tt.host+"/v1/token application/json"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			fields := r.JSONBody()
			if fields["subject_token"] != podToken().Reveal() {
				t.Error("subject_token is not the request's token")
			}
			delete(fields, "subject_token")
			if diff := cmp.Diff(map[string]any{
				"audience":             tt.audience,
				"grant_type":           "urn:ietf:params:oauth:grant-type:token-exchange",
				"requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
				"scope":                "https://www.googleapis.com/auth/cloud-platform",
				"subject_token_type":   "urn:ietf:params:oauth:token-type:jwt",
			}, fields); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestImpersonation(t *testing.T) {
	w := newTestCloud(t)
	p := w.newProvider(t, gcr.Options{STSAudience: "pool", Impersonate: true})
	got := mustGetCredentials(t, p, podRequest("gcr.io/p/app", gcr.AnnotationAccount+"=puller@p.iam.gserviceaccount.com"))
	// The token expires at an absolute time, so its remaining lifetime may already be a second
	// shorter.
	if got.Password != "open-sesame-account" || got.Duration != "30m0s" && got.Duration != "29m59s" {
		t.Errorf("got %+v", got)
	}
	r := w.Requests()[1]
	if got, want := r.String(), "POST iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/puller@p.iam.gserviceaccount.com:generateAccessToken"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if diff := cmp.Diff(map[string]any{"scope": []any{"https://www.googleapis.com/auth/cloud-platform"}}, r.JSONBody()); diff != "" {
		t.Error(diff)
	}
}

// TestImpersonationPath verifies that an annotation cannot change the path of the request.
func TestImpersonationPath(t *testing.T) {
	for _, account := range []string{"..", "x/../../../v1/projects/p", "..;/admin", "a%2fb", `a\b`, "a?b"} {
		w := newTestCloud(t)
		p := w.newProvider(t, gcr.Options{STSAudience: "pool", Impersonate: true})
		_, err := getCredentials(t, p, podRequest("gcr.io/p/app", gcr.AnnotationAccount+"="+account))
		if err == nil || !strings.Contains(err.Error(), "annotation "+gcr.AnnotationAccount+": a value in the path must not") || len(w.Requests()) > 0 {
			t.Errorf("%q: got %v after %d requests", account, err, len(w.Requests()))
		}
	}
}

// TestSkewedClock verifies that a token's lifetime is computed with the endpoint's clock.
func TestSkewedClock(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour * 24 * 365, time.Hour * 24 * 365} {
		w := newTestCloud(t)
		theirs := time.Now().Add(skew).UTC()
		w.Inject(testcloud.Fault{
			Path: "iamcredentials.", Status: 200, Header: http.Header{"Date": {theirs.Format(http.TimeFormat)}},
			Body: `{"accessToken":"open-sesame","expireTime":"` + theirs.Add(time.Hour).Format(time.RFC3339) + `"}`,
		})
		p := w.newProvider(t, gcr.Options{STSAudience: "pool", Impersonate: true})
		got := mustGetCredentials(t, p, podRequest("gcr.io/p/app", gcr.AnnotationAccount+"=puller@p.iam.gserviceaccount.com"))
		if diff := cmp.Diff(nodeResponse(googleKeys), got); diff != "" {
			t.Errorf("%v: %s", skew, diff)
		}
	}
}

// TestRefusedToken verifies that the error contains the claims of a rejected token, but not the
// token.
func TestRefusedToken(t *testing.T) {
	for name, tt := range map[string]struct {
		token plugin.Secret
		want  string
	}{
		"the kubelet's": {podToken(), `(invalid_grant) (the token has subject "system:serviceaccount:team:app", issuer "https://issuer.example" and audience "pool")`},
		"no JWT":        {plugin.NewSecret(canary.TokenSecret), "(invalid_grant) (the service-account token is not a JSON Web Token)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t)
			w.Update(func(s *testcloud.GoogleState) { s.SubjectToken = "another" })
			req := podRequest("gcr.io/p/app")
			req.ServiceAccountToken = tt.token
			_, err := getCredentials(t, w.newProvider(t, gcr.Options{STSAudience: "pool"}), req)
			want := `registry "gcr.io": exchange the service-account token: POST https://sts.googleapis.com/v1/token: status 400 Bad Request ` +
				tt.want + "; check that the workload identity pool has a provider with the token's issuer and audience"
			if err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// TestFederatedLife verifies the cache duration of an STS token, with and without a lifetime in the
// response.
func TestFederatedLife(t *testing.T) {
	w := newTestCloud(t)
	p := w.newProvider(t, gcr.Options{STSAudience: "pool"})
	for _, tt := range []struct {
		change func(*testcloud.GoogleState)
		want   string
	}{
		{func(s *testcloud.GoogleState) { s.Lifetime = 20 * time.Minute }, "10m0s"},
		{func(s *testcloud.GoogleState) { s.OmitExpiresIn = true }, "0s"},
	} {
		w.Update(tt.change)
		if got := mustGetCredentials(t, p, podRequest("gcr.io/p/app")); got.Duration != tt.want || got.Password != "open-sesame-federated" {
			t.Errorf("got %+v", got)
		}
	}
}
