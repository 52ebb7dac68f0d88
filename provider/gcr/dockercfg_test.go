// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testenv"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/gcr"
)

// getDockercfg requests the docker config without a custom transport.
func getDockercfg(t testing.TB, w *testCloud, flow, image string) (*plugin.Response, error) {
	t.Helper()
	p := must.Get(gcr.New(gcr.Options{Flow: flow, MetadataHost: w.Addr(), Backoff: 1}))(t)
	resp, err := p.GetCredentials(t.Context(), &plugin.Request{Image: image})
	if err != nil {
		canary.AssertAbsent(t, "the error", err.Error())
	}
	return resp, err
}

// TestDockercfg verifies that a response for any registry contains all credentials of the document
// under their own keys.
func TestDockercfg(t *testing.T) {
	for name, tt := range map[string]struct {
		document string
		want     map[string]plugin.AuthConfig
	}{
		"user and password": {`{"https://gcr.io":{"username":"u","password":"open-sesame","email":"e"}}`,
			map[string]plugin.AuthConfig{"https://gcr.io": {Username: "u", Password: plugin.NewSecret("open-sesame")}}},
		"auth wins": {`{"a.example":{"username":"x","password":"y","auth":"dTpvcGVuLXNlc2FtZQ=="}}`,
			map[string]plugin.AuthConfig{"a.example": {Username: "u", Password: plugin.NewSecret("open-sesame")}}},
		"auth not padded": {`{"a.example":{"auth":"dTpvcGVuLXNlc2FtZQ"}}`,
			map[string]plugin.AuthConfig{"a.example": {Username: "u", Password: plugin.NewSecret("open-sesame")}}},
		"auth in lines": {`{"a.example":{"auth":"dTpvcGVu\nLXNlc2FtZQ=="}}`,
			map[string]plugin.AuthConfig{"a.example": {Username: "u", Password: plugin.NewSecret("open-sesame")}}},
		"two": {`{"a.example":{"username":"u","password":"open-sesame"},"b.example":{}}`,
			map[string]plugin.AuthConfig{"a.example": {Username: "u", Password: plugin.NewSecret("open-sesame")}, "b.example": {}}},
		"empty": {`{}`, map[string]plugin.AuthConfig{}},
	} {
		for _, flow := range []string{gcr.FlowDockercfg, gcr.FlowDockercfgURL} {
			t.Run(name+" by "+flow, func(t *testing.T) {
				w := newTestCloud(t)
				files := testcloud.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, tt.document) }))
				defer files.Close()
				w.Update(func(s *testcloud.GoogleState) {
					s.Dockercfg, s.DockercfgURL = tt.document, files.URL()+"/dockercfg?sig="+canary.ArgSecret+"\n"
				})
				resp := must.Get(getDockercfg(t, w, flow, "registry.example/app"))(t)
				if diff := cmp.Diff(tt.want, resp.Auth); diff != "" {
					t.Error(diff)
				}
				if resp.CacheKeyType != plugin.CacheImage || *resp.CacheDuration != 0 {
					t.Errorf("%s for %v", resp.CacheKeyType, *resp.CacheDuration)
				}
				if got := len(w.Requests()); got != 1 {
					t.Errorf("asked %q", w.RequestLines())
				}
				for _, r := range files.Requests() {
					if r.Path != "/dockercfg" || r.Header.Get("Metadata-Flavor") != "" || r.Header.Get("Authorization") != "" {
						t.Errorf("the server of the document got %v with %v", r, r.Header)
					}
				}
			})
		}
	}
}

// TestDockercfgIsForAll verifies that flags for workload identity are ignored with a warning.
func TestDockercfgIsForAll(t *testing.T) {
	w := newTestCloud(t)
	w.Update(func(s *testcloud.GoogleState) {
		s.Dockercfg = `{"a.example":{"username":"u","password":"open-sesame"}}`
	})
	var log bytes.Buffer
	p := w.newProvider(t, gcr.Options{
		Flow: gcr.FlowDockercfg, IdentityProvider: clusterIssuer, ProjectID: "p", Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	resp, err := p.GetCredentials(t.Context(), podRequest("gcr.io/p/app", gcr.AnnotationEnable+"=true"))
	if err != nil || resp.Auth["a.example"].Username != "u" {
		t.Error(err)
	}
	if got := log.String(); !strings.Contains(got, `msg="workload identity is ignored because the flow is not gcr"`) {
		t.Error(got)
	}
}

func TestDockercfgFails(t *testing.T) {
	const attribute = "/computeMetadata/v1/instance/attributes/google-dockercfg"
	gone := "http://" + testenv.FreeAddr(t)
	for name, tt := range map[string]struct {
		document string
		url      string
		fault    testcloud.Fault
		want     string // METADATA and FILES are replaced with the addresses of the two servers
	}{
		"no attribute": {want: "read the instance attribute google-dockercfg: GET http://METADATA" + attribute +
			": status 404 Not Found, 3 times; set the attribute in the instance or project metadata, or use another --authFlow"},
		"no url": {url: "none", want: "read the instance attribute google-dockercfg-url: GET http://METADATA" + attribute + "-url" +
			": status 404 Not Found, 3 times; set the attribute in the instance or project metadata, or use another --authFlow"},
		"metadata refuses": {document: `{}`, fault: testcloud.Fault{Path: attribute, Status: 403, Times: -1}, want: "status 403 Forbidden; the metadata server rejected the request; check for a proxy or agent in front of it"},
		"not JSON":         {document: canary.PasswordSecret, want: "GET http://METADATA" + attribute + ": line 1, column 1: not JSON from here on"},
		"a list":           {document: `["` + canary.PasswordSecret + `"]`, want: "line 1, column 1: an array where an object is expected"},
		"a number":         {document: `{"a":{"password":1}}`, want: ".password: a number where a string is expected"},
		"one bad entry":    {document: `{"a.example":{"auth":"` + canary.PasswordSecret + `"},"b.example":{"username":"u","password":"open-sesame"}}`, want: `["a.example"].auth: it is not base64`},
		"auth with blanks": {document: `{"a.example":{"auth":"dTpvcGVu LXNlc2FtZQ=="}}`, want: `["a.example"].auth: it is not base64`},
		"gs":               {url: "gs://bucket/" + canary.ArgSecret, want: "read the instance attribute google-dockercfg-url: must be an http or https URL"},
		"file":             {url: "file:///etc/" + canary.ArgSecret, want: "must be an http or https URL"},
		"httpx":            {url: "httpx://a/", want: "must be an http or https URL"},
		"no host":          {url: "http:///x", want: "must be an http or https URL"},
		"metadata address": {url: "http://169.254.169.254/computeMetadata/v1/", want: "points to a metadata server, which is not allowed; set it to the URL of a docker config on another server"},
		"link-local":       {url: "http://[fe80::1]/", want: "the instance attribute google-dockercfg-url points to a metadata server"},
		"metadata name":    {url: "http://Metadata.Google.Internal./computeMetadata/v1/", want: "the instance attribute google-dockercfg-url points to a metadata server"},
		"metadata, chosen": {url: "http://METADATA/computeMetadata/v1/", want: "the instance attribute google-dockercfg-url points to a metadata server"},
		"file 404":         {url: "http://FILES/missing?sig=" + canary.ArgSecret, want: "get the docker config: GET http://FILES/missing: status 404 Not Found"},
		"file elsewhere":   {url: "http://FILES/elsewhere", want: `did not follow a redirect to another host, "evil.example"`},
		"file not JSON":    {url: "http://FILES/garbage", want: "get the docker config: GET http://FILES/garbage: line 1, column 1: not JSON from here on"},
		"file refused":     {url: gone + "/?" + canary.ArgSecret, want: "get the docker config: GET " + gone + "/: connection refused, 3 times"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t)
			files := testcloud.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/garbage":
					io.WriteString(rw, canary.PasswordSecret)
				case "/elsewhere":
					http.Redirect(rw, r, "http://evil.example/"+canary.ArgSecret, http.StatusFound)
				default:
					http.Error(rw, canary.PasswordSecret, http.StatusNotFound)
				}
			}))
			defer files.Close()
			names := strings.NewReplacer("METADATA", w.Addr(), "FILES", files.Addr())
			w.Update(func(s *testcloud.GoogleState) {
				s.Dockercfg = tt.document
				if tt.url != "none" {
					s.DockercfgURL = names.Replace(tt.url)
				}
			})
			flow := gcr.FlowDockercfg
			if tt.url != "" {
				flow = gcr.FlowDockercfgURL
			}
			if tt.fault.Status != 0 {
				w.Inject(tt.fault)
			}
			_, err := getDockercfg(t, w, flow, "registry.example/app")
			if err == nil || !strings.HasPrefix(err.Error(), `registry "registry.example": `) || !strings.Contains(err.Error(), names.Replace(tt.want)) {
				t.Errorf("got  %v\nwant %s", err, names.Replace(tt.want))
			}
		})
	}
}
