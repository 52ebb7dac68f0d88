// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/testcloud"
)

const (
	imdsPath     = "/metadata/identity/oauth2/token"
	entraPath    = "/oauth2/v2.0/token"
	exchangePath = "/oauth2/exchange"
)

// errorBody is the body of an error response. It contains an error code, and a canary that must not
// appear in errors.
const errorBody = `{"error":"invalid_client","error_description":"AADSTS7000215: ` + canary.TokenSecret + `","trace":"` + canary.TokenSecret + `"}`

func TestFailures(t *testing.T) {
	header := http.Header{"X-Ms-Request-Id": {testcloud.AzureRequestID}}
	for _, test := range []struct {
		name  string
		path  string
		fault testcloud.Fault
		want  string // end of the error, after the step and the endpoint
		times int    // number of requests
	}{
		{"IMDS 400", imdsPath, testcloud.Fault{Status: 400, Header: header, Body: errorBody}, "status 400 Bad Request (invalid_client, AADSTS7000215) [request id 4f5e1b1c-request]; check that the node has a system-assigned identity", 1},
		{"IMDS 401", imdsPath, testcloud.Fault{Status: 401, Body: errorBody}, "status 401", 1},
		{"IMDS 403", imdsPath, testcloud.Fault{Status: 403, Body: errorBody}, "status 403 Forbidden", 1},
		{"IMDS 404", imdsPath, testcloud.Fault{Status: 404, Body: "<html>" + canary.TokenSecret}, "status 404 Not Found, 6 times", 6},
		{"IMDS 410", imdsPath, testcloud.Fault{Status: 410}, "status 410 Gone, 6 times", 6},
		{"IMDS 429", imdsPath, testcloud.Fault{Status: 429}, "status 429 Too Many Requests, 6 times", 6},
		{"IMDS 429 for long", imdsPath, testcloud.Fault{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}, "status 429 Too Many Requests;", 1},
		{"IMDS 500", imdsPath, testcloud.Fault{Status: 500, Body: errorBody}, "status 500 Internal Server Error (invalid_client, AADSTS7000215), 6 times", 6},
		{"IMDS gone", imdsPath, testcloud.Fault{Drop: true}, "the connection was closed before the response was complete, 3 times", 3},
		{"IMDS garbage", imdsPath, testcloud.Fault{Status: 200, Body: "<html>" + canary.TokenSecret}, "the response is not a JSON object", 1},
		{"IMDS empty", imdsPath, testcloud.Fault{Status: 200}, "the response is not a JSON object", 1},
		{"IMDS null", imdsPath, testcloud.Fault{Status: 200, Body: " null"}, "the response has no access_token", 1},
		{"IMDS without token", imdsPath, testcloud.Fault{Status: 200, Body: `{"expires_in":"86399"}`}, "the response has no access_token", 1},
		{"IMDS huge", imdsPath, testcloud.Fault{Status: 200, Body: `{"expires_in":"86399","access_token":"` + strings.Repeat("x", remote.MaxBodySize) + `"}`}, "longer than 1048576 bytes;", 1},
		{"IMDS cut off", imdsPath, testcloud.Fault{Status: 200, Truncate: true, Body: `{"access_token":"` + canary.TokenSecret}, "the connection was closed before the response was complete, 3 times", 3},
		{"IMDS redirect", imdsPath, testcloud.Fault{Status: 302, Header: http.Header{"Location": {"https://evil.example/"}}}, `redirect to another host, "evil.example"`, 1},

		{"IMDS control character", imdsPath, testcloud.Fault{Status: 200, Body: `{"access_token":"a\u0000b"}`}, "the response has invalid characters in access_token", 1},

		{"AAD 400", entraPath, testcloud.Fault{Status: 400, Header: header, Body: errorBody}, "status 400 Bad Request (invalid_client, AADSTS7000215) [request id 4f5e1b1c-request]; check that application \"client-1\"", 1},
		{"AAD 401", entraPath, testcloud.Fault{Status: 401, Body: errorBody}, "status 401 Unauthorized (invalid_client, AADSTS7000215); check that application", 1},
		{"AAD 404", entraPath, testcloud.Fault{Status: 404}, "status 404 Not Found", 1},
		{"AAD 429", entraPath, testcloud.Fault{Status: 429}, "status 429 Too Many Requests, 3 times", 3},
		{"AAD 503", entraPath, testcloud.Fault{Status: 503}, "status 503 Service Unavailable, 3 times", 3},
		{"AAD garbage", entraPath, testcloud.Fault{Status: 200, Body: canary.TokenSecret}, "the response is not a JSON object", 1},
		{"AAD empty", entraPath, testcloud.Fault{Status: 200}, "the response is not a JSON object", 1},
		{"AAD without token", entraPath, testcloud.Fault{Status: 200, Body: `{"access_token":""}`}, "the response has no access_token", 1},
		{"AAD line feed", entraPath, testcloud.Fault{Status: 200, Body: `{"access_token":"a\nb"}`}, "the response has invalid characters in", 1},
		{"AAD huge", entraPath, testcloud.Fault{Status: 200, Body: strings.Repeat(" ", remote.MaxBodySize+1)}, "longer than 1048576 bytes;", 1},
		{"AAD cut off", entraPath, testcloud.Fault{Status: 200, Truncate: true, Body: `{"access_token":"` + canary.TokenSecret}, "the connection was closed before the response was complete, 3 times", 3},
		{"AAD redirect", entraPath, testcloud.Fault{Status: 307, Header: http.Header{"Location": {"https://evil.example/"}}}, `redirect to another host, "evil.example"`, 1},

		{"registry 200", "/v2/", testcloud.Fault{Status: 200}, "status 200: the registry did not send the Bearer challenge that an Azure container registry sends", 1},
		{"registry 403", "/v2/", testcloud.Fault{Status: 403, Body: `{"errors":[{"code":"DENIED","message":"` + canary.TokenSecret + `"}]}`}, "status 403 Forbidden (DENIED); check the registry name", 1},
		{"registry 404", "/v2/", testcloud.Fault{Status: 404}, "status 404", 1},
		{"registry 500", "/v2/", testcloud.Fault{Status: 500}, "status 500 Internal Server Error, 3 times", 3},
		{"registry redirect", "/v2/", testcloud.Fault{Status: 302, Header: http.Header{"Location": {"https://evil.example/"}}}, `redirect to another host, "evil.example"`, 1},
		{"registry without challenge", "/v2/", testcloud.Fault{Status: 401}, "status 401: the registry did not send the Bearer challenge that an Azure container registry sends", 1},
		{"registry with Basic", "/v2/", challengeFault(`Basic realm="foo"`), "the registry did not send the Bearer challenge that an Azure container registry sends", 1},
		{"registry with another realm", "/v2/", challengeFault(`Bearer realm="https://evil.example/oauth2/token",service="foo.azurecr.io"`), `realm is on another host, "evil.example"; refusing to send a token to it`, 1},
		{"registry with a plain realm", "/v2/", challengeFault(`Bearer realm="http://foo.azurecr.io/oauth2/token",service="foo.azurecr.io"`), "the challenge's realm does not use https; refusing to send a token to it", 1},
		{"registry without realm", "/v2/", challengeFault(`Bearer service="foo.azurecr.io"`), "the challenge's realm is not a URL", 1},
		{"registry without service", "/v2/", challengeFault(`Bearer realm="https://foo.azurecr.io/oauth2/token"`), "the Bearer challenge has no service parameter", 1},
		{"registry with a bare scheme", "/v2/", challengeFault(`Bearer`), "the Bearer challenge has no service parameter", 1},

		{"exchange 400", exchangePath, testcloud.Fault{Status: 400, Body: errorBody}, "status 400 Bad Request (invalid_client, AADSTS7000215); check that the identity has the AcrPull", 1},
		{"exchange 401", exchangePath, testcloud.Fault{Status: 401, Header: http.Header{"X-Ms-Correlation-Request-Id": {"corr-1"}}}, "status 401 Unauthorized [request id corr-1]; check that", 1},
		{"exchange 403", exchangePath, testcloud.Fault{Status: 403}, "status 403 Forbidden", 1},
		{"exchange 429", exchangePath, testcloud.Fault{Status: 429}, "status 429 Too Many Requests, 3 times", 3},
		{"exchange 500", exchangePath, testcloud.Fault{Status: 500}, "status 500 Internal Server Error, 3 times", 3},
		{"exchange garbage", exchangePath, testcloud.Fault{Status: 200, Body: canary.TokenSecret}, "the response is not a JSON object", 1},
		{"exchange without token", exchangePath, testcloud.Fault{Status: 200, Body: `{"access_token":"` + canary.TokenSecret + `"}`}, "the response has no refresh_token", 1},
		{"exchange with a number", exchangePath, testcloud.Fault{Status: 200, Body: `{"refresh_token":1}`}, "the response has no refresh_token", 1},
		{"exchange line feed", exchangePath, testcloud.Fault{Status: 200, Body: `{"refresh_token":"a\r\nb"}`}, "the response has invalid characters in", 1},
		{"exchange not ASCII", exchangePath, testcloud.Fault{Status: 200, Body: `{"refresh_token":"a\u202eb"}`}, "the response has invalid characters in", 1},
		{"exchange huge", exchangePath, testcloud.Fault{Status: 200, Body: strings.Repeat(" ", remote.MaxBodySize+1)}, "longer than 1048576 bytes", 1},
		{"exchange redirect", exchangePath, testcloud.Fault{Status: 307, Header: http.Header{"Location": {"https://evil.example/"}}}, "redirect to another host", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestCloud(t, managedIdentityConfig)
			test.fault.Path, test.fault.Times = test.path, -1
			w.az.Inject(test.fault)
			req := imageRequest("foo.azurecr.io/app")
			if test.path == entraPath {
				req = podRequest("foo.azurecr.io/app", identityAnnotations("client-1", "tenant-1"))
			}
			w.checkError(req, "credentials for foo.azurecr.io: ", test.want)
			asked := 0
			for _, line := range w.az.SortedRequestLines() {
				if strings.Contains(line, test.path) {
					asked++
				}
			}
			if asked != test.times {
				t.Errorf("asked %d times, want %d", asked, test.times)
			}
		})
	}
}

func challengeFault(value string) testcloud.Fault {
	return testcloud.Fault{Status: 401, Header: http.Header{"Www-Authenticate": {value}}}
}

// TestErrorsNameTheStep verifies that an error names the failed step.
func TestErrorsNameTheStep(t *testing.T) {
	for path, want := range map[string]string{
		imdsPath:     "get a token for the node's managed identity: GET http://imds.test/metadata/identity/oauth2/token: status 403",
		"/v2/":       "get the registry's authentication challenge: GET https://foo.azurecr.io/v2/: status 403",
		exchangePath: "exchange the token: POST https://foo.azurecr.io/oauth2/exchange: status 403",
	} {
		w := newTestCloud(t, managedIdentityConfig)
		w.az.Inject(testcloud.Fault{Path: path, Status: 403})
		w.checkError(imageRequest("foo.azurecr.io/app"), want)
	}
	w := newTestCloud(t, managedIdentityConfig)
	w.az.Inject(testcloud.Fault{Path: entraPath, Status: 403})
	w.checkError(podRequest("foo.azurecr.io/app", identityAnnotations("c", "t")), "get a token from Microsoft Entra ID: POST https://login.microsoftonline.com/t/oauth2/v2.0/token: status 403",
		`has a federated credential for the cluster's issuer, service account "shop/cart"`)
}

// TestTemporaryFailures verifies that temporary failures are retried.
func TestTemporaryFailures(t *testing.T) {
	for _, fault := range []testcloud.Fault{
		{Path: imdsPath, Status: 404, Times: 2}, {Path: imdsPath, Status: 410, Times: 2}, {Path: imdsPath, Status: 500, Times: 4},
		{Path: imdsPath, Status: 429, Header: http.Header{"Retry-After": {"1"}}}, {Path: imdsPath, Drop: true, Times: 2},
		{Path: "/v2/", Status: 503, Times: 2}, {Path: "/v2/", Drop: true},
		{Path: exchangePath, Status: 429, Header: http.Header{"Retry-After": {"1"}}}, {Path: exchangePath, Status: 500, Times: 2}, {Path: exchangePath, Truncate: true, Status: 200},
	} {
		w := newTestCloud(t, managedIdentityConfig)
		w.az.Inject(fault)
		begun := time.Now()
		w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
		if took := time.Since(begun); fault.Header != nil && took < time.Second {
			t.Errorf("%s: asked again after %v, though told to wait a second", fault.Path, took)
		}
	}
}

// newHangingHandler returns a handler that never responds to requests for path. It closes the
// connection after the client has disconnected, because an earlier response could still arrive
// before the cancellation.
func newHangingHandler(path string, next http.Handler, began func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, path) {
			next.ServeHTTP(w, r)
			return
		}
		io.Copy(io.Discard, r.Body) // otherwise the server does not notice the disconnect
		if began != nil {
			began()
		}
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})
}

func (w *testCloud) hangOnPath(path string) {
	for _, host := range []string{"imds.test", "foo.azurecr.io", "login.microsoftonline.com", "management.azure.com"} {
		w.net.Handle(host, newHangingHandler(path, w.az, nil))
	}
}

// TestSilentEndpoint verifies that an error names an endpoint that never responds, whichever
// timeout is reached first.
func TestSilentEndpoint(t *testing.T) {
	for _, path := range []string{imdsPath, "/v2/", exchangePath, entraPath} {
		for name, limit := range map[string]func(*Options){
			"attempts": func(o *Options) { o.Timeout = 100 * time.Millisecond },
			"budget":   func(o *Options) { o.Budget = 300 * time.Millisecond },
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				w := newTestCloud(t, managedIdentityConfig)
				limit(&w.opts)
				w.hangOnPath(path)
				req, endpoint := imageRequest("foo.azurecr.io/app"), path
				if path == entraPath {
					req = podRequest("foo.azurecr.io/app", identityAnnotations("c", "t"))
				}
				w.checkError(req, endpoint+": no response within ")
				if path == entraPath {
					w.checkError(req, "check that the node can reach the endpoint, directly or through HTTPS_PROXY")
				}
			})
		}
	}
	t.Run("resource manager", func(t *testing.T) {
		w := newTestCloud(t, `{"resourceManagerEndpoint":"https://management.azure.com"}`)
		w.opts.Timeout = 100 * time.Millisecond
		w.hangOnPath("/metadata/endpoints")
		w.checkError(imageRequest("foo.own.example/app"), "https://management.azure.com/metadata/endpoints: no response within 100ms, 3 times")
	})
	t.Run("identity binding", func(t *testing.T) {
		w := newTestCloud(t, managedIdentityConfig)
		w.opts.Timeout = 100 * time.Millisecond
		w.serveIdentityBinding(func(az http.Handler) http.Handler { return newHangingHandler("/", az, nil) })
		w.checkError(podRequest("foo.azurecr.io/app", identityAnnotations("c", "t")), "POST https://example.com/: no response within 100ms, 3 times; the request was sent to 127.0.0.1:")
	})
}

// TestRefused verifies that a missing metadata server is reported quickly.
func TestRefused(t *testing.T) {
	w := newTestCloud(t, managedIdentityConfig)
	w.opts.Backoff = 0 // the default, as in the plugin
	w.opts.Transport = remote.NewTransport()
	w.env["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = "http://127.0.0.1:1"
	begun := time.Now()
	w.checkError(imageRequest("foo.azurecr.io/app"), "GET http://127.0.0.1:1/metadata/identity/oauth2/token: connection refused, 3 times; check that the node")
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestCanceled(t *testing.T) {
	w := newTestCloud(t, managedIdentityConfig)
	p := must.Get(New(w.opts))(t)
	ctx, cancel := context.WithCancel(context.Background())
	w.net.Handle("imds.test", newHangingHandler(imdsPath, w.az, cancel))
	if _, err := p.GetCredentials(ctx, imageRequest("foo.azurecr.io/app")); err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("got error %v", err)
	}
}
