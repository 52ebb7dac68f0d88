// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testenv"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/gcr"
)

// failureCase is a fault to inject and the expected outcome.
type failureCase struct {
	name     string
	fault    testcloud.Fault
	want     string // the error after the endpoint; "" means no error
	requests int
}

// attemptTimeout returns the timeout of one attempt. It is short if the endpoint hangs. Otherwise it is
// long enough for a busy machine.
func (f failureCase) attemptTimeout() time.Duration {
	if f.fault.Hang {
		return time.Second
	}
	return 0
}

func failureCases() []failureCase {
	long := strings.Repeat(canary.TokenSecret+" ", 10000) // longer than a buffered response
	elsewhere := http.Header{"Location": {"http://evil.example/?t=" + canary.TokenSecret}}
	return []failureCase{
		{"400", testcloud.Fault{Status: 400, Body: canary.TokenSecret}, "status 400 Bad Request", 1},
		{"401", testcloud.Fault{Status: 401, Body: `{"error":{"code":401,"status":"UNAUTHENTICATED","message":"` + canary.TokenSecret + `"}}`}, "status 401 Unauthorized (UNAUTHENTICATED)", 1},
		{"403", testcloud.Fault{Status: 403, Body: `{"error":"access_denied","error_description":"` + canary.TokenSecret + `"}`}, "status 403 Forbidden (access_denied)", 1},
		{"429", testcloud.Fault{Status: 429, Times: -1, Header: http.Header{"Retry-After": {"0"}}}, "status 429 Too Many Requests, 3 times", 3},
		{"429 for an hour", testcloud.Fault{Status: 429, Times: -1, Header: http.Header{"Retry-After": {"3600"}}}, "status 429 Too Many Requests", 1},
		{"429 once", testcloud.Fault{Status: 429}, "", 2},
		{"500 always", testcloud.Fault{Status: 500, Times: -1, Body: canary.TokenSecret}, "status 500 Internal Server Error, 3 times", 3},
		{"500 once", testcloud.Fault{Status: 500}, "", 2},
		{"503 twice", testcloud.Fault{Status: 503, Times: 2}, "", 3},
		{"408 once", testcloud.Fault{Status: 408}, "", 2},
		{"dropped once", testcloud.Fault{Drop: true}, "", 2},
		{"dropped", testcloud.Fault{Drop: true, Times: -1}, "the connection was closed before the response was complete, 3 times", 3},
		{"hangs", testcloud.Fault{Hang: true, Times: -1}, "no response within 1s, 3 times", 3},
		{"hangs once", testcloud.Fault{Hang: true}, "", 2},
		{"truncated", testcloud.Fault{Status: 200, Times: -1, Truncate: true, Body: long}, "the connection was closed before the response was complete, 3 times", 3},
		{"truncated once", testcloud.Fault{Status: 200, Truncate: true, Body: long}, "", 2},
		{"huge", testcloud.Fault{Status: 200, Times: -1, Body: strings.Repeat(long, 7)}, "the response is longer than 1048576 bytes", 1},
		{"elsewhere", testcloud.Fault{Status: 302, Times: -1, Header: elsewhere}, `did not follow a redirect to another host, "evil.example"`, 1},
		{"elsewhere, kept", testcloud.Fault{Status: 307, Times: -1, Header: elsewhere}, `did not follow a redirect to another host, "evil.example"`, 1},
		{"204", testcloud.Fault{Status: 204}, "status 204 No Content", 1},
	}
}

// badResponses returns faults with status 200 whose body contains no valid token.
func badResponses() []failureCase {
	say := func(body string) testcloud.Fault { return testcloud.Fault{Status: 200, Times: -1, Body: body} }
	return []failureCase{
		{"empty", say(""), "the token response is not valid JSON", 1},
		{"garbage", say("<html>" + canary.TokenSecret), "the token response is not valid JSON", 1},
		{"half", say(`{"access_token":"` + canary.TokenSecret), "the token response is not valid JSON", 1},
		{"a list", say(`["` + canary.TokenSecret + `"]`), "the token response is not valid JSON", 1},
		{"two", say(`{"access_token":"` + canary.TokenSecret + `"}{}`), "the token response is not valid JSON", 1},
		{"null", say(`null`), "the response has no access token", 1},
		{"no token", say(`{"expires_in":3600,"id_token":"` + canary.TokenSecret + `"}`), "the response has no access token", 1},
		{"empty token", say(`{"access_token":"","expires_in":3600}`), "the response has no access token", 1},
		{"token a number", say(`{"access_token":1,"expires_in":3600}`), "the token response is not valid JSON", 1},
		{"token with a line end", say(`{"access_token":"` + canary.TokenSecret + `\n","expires_in":3600}`), "the response has no access token", 1},
		{"not UTF-8", say("{\"access_token\":\"" + canary.TokenSecret + "\xff\",\"expires_in\":3600}"), "the response has no access token", 1},
		{"expired", say(`{"access_token":"` + canary.TokenSecret + `","expires_in":0}`), "the access token in the response has already expired", 1},
		{"long expired", say(`{"access_token":"` + canary.TokenSecret + `","expires_in":-86400}`), "the access token in the response has already expired", 1},
		{"life a text", say(`{"access_token":"` + canary.TokenSecret + `","expires_in":"soon"}`), "the token response is not valid JSON", 1},
	}
}

func TestMetadataFails(t *testing.T) {
	for _, f := range append(append(failureCases(), badResponses()...),
		failureCase{"404 at boot", testcloud.Fault{Status: 404, Times: 2}, "", 3},
		failureCase{"404", testcloud.Fault{Status: 404, Times: -1}, "status 404 Not Found, 3 times; attach a service account to the instance", 3},
	) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			w := newTestCloud(t)
			w.Inject(f.fault)
			_, err := getCredentials(t, w.newProvider(t, gcr.Options{Timeout: f.attemptTimeout()}), &plugin.Request{Image: "us-docker.pkg.dev/p/r/app"})
			checkFailure(t, w, f, err, `registry "us-docker.pkg.dev": get the node's access token: GET http://`+w.Addr()+testcloud.GoogleTokenPath+": ",
				map[string]string{
					"hangs":   "; a node outside Google Cloud has no metadata server, so --sts-audience is required",
					"dropped": "; a node outside Google Cloud has no metadata server, so --sts-audience is required",
					"403":     "; the metadata server rejected the request; check for a proxy or agent in front of it",
				})
		})
	}
}

func TestSTSFails(t *testing.T) {
	claims := ` (the token has subject "system:serviceaccount:team:app", issuer "https://issuer.example" and audience "pool")` +
		"; check that the workload identity pool has a provider with the token's issuer and audience"
	for _, f := range append(append(failureCases(), badResponses()...),
		failureCase{"404", testcloud.Fault{Status: 404}, "status 404 Not Found", 1},
	) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			w := newTestCloud(t)
			w.Inject(f.fault)
			p := w.newProvider(t, gcr.Options{IdentityProvider: clusterIssuer, ProjectID: "p", Timeout: f.attemptTimeout()})
			_, err := getCredentials(t, p, podRequest("gcr.io/p/app", gcr.AnnotationEnable+"=true"))
			checkFailure(t, w, f, err, `registry "gcr.io": exchange the service-account token: POST https://sts.googleapis.com/v1/token: `,
				map[string]string{
					"hangs":   "; check that the node can reach the endpoint, directly or through HTTPS_PROXY",
					"dropped": "; check that the node can reach the endpoint, directly or through HTTPS_PROXY",
					"400":     claims, "401": claims, "403": claims,
				})
			for _, r := range w.Requests() {
				if r.Host != "sts.googleapis.com" {
					t.Errorf("%v was called, too", r)
				}
			}
		})
	}
}

func TestImpersonationFails(t *testing.T) {
	for _, f := range []failureCase{
		{"403", testcloud.Fault{Status: 403, Body: `{"error":{"status":"PERMISSION_DENIED","message":"` + canary.TokenSecret + `"}}`},
			"status 403 Forbidden (PERMISSION_DENIED); grant the pod's identity roles/iam.workloadIdentityUser on the Google service account", 1},
		{"503", testcloud.Fault{Status: 503, Times: -1}, "status 503 Service Unavailable, 3 times", 3},
		{"503 once", testcloud.Fault{Status: 503}, "", 2},
		{"no token", testcloud.Fault{Status: 200, Body: `{"expireTime":"2999-01-01T00:00:00Z"}`}, "the response has no access token", 1},
		{"expired", testcloud.Fault{Status: 200, Body: `{"accessToken":"` + canary.TokenSecret + `","expireTime":"2001-01-01T00:00:00Z"}`}, "the access token in the response has already expired", 1},
		{"garbage", testcloud.Fault{Status: 200, Body: canary.TokenSecret}, "the token response is not valid JSON", 1},
	} {
		t.Run(f.name, func(t *testing.T) {
			w := newTestCloud(t)
			f.fault.Path = "iamcredentials."
			f.requests++ // the request to STS
			w.Inject(f.fault)
			p := w.newProvider(t, gcr.Options{STSAudience: "pool", Impersonate: true})
			_, err := getCredentials(t, p, podRequest("gcr.io/p/app", gcr.AnnotationAccount+"=puller@p.iam.gserviceaccount.com"))
			checkFailure(t, w, f, err, `registry "gcr.io": impersonate "puller@p.iam.gserviceaccount.com": POST `+
				"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/puller@p.iam.gserviceaccount.com:generateAccessToken: ", nil)
		})
	}
}

func checkFailure(t *testing.T, w *testCloud, f failureCase, err error, prefix string, hints map[string]string) {
	t.Helper()
	switch {
	case f.want == "":
		if err != nil {
			t.Errorf("not overcome: %v", err)
		}
	case err == nil:
		t.Error("no error")
	default:
		if got, want := err.Error(), prefix+f.want+hints[f.name]; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := len(w.Requests()); got != f.requests {
		t.Errorf("asked %d times, want %d: %q", got, f.requests, w.RequestLines())
	}
	if strays := w.net.UnknownHosts(); len(strays) > 0 {
		t.Errorf("other hosts were called: %q", strays)
	}
}

// TestConnectionIsReset verifies the number of attempts. Google's client library would make six
// times as many.
func TestConnectionIsReset(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections := make(chan int)
	go func() {
		n := 0
		for {
			conn, err := listener.Accept()
			if err != nil {
				connections <- n
				return
			}
			n++
			conn.Read(make([]byte, 4096))
			conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
	}()
	w := newTestCloud(t)
	_, err = getCredentials(t, w.newProvider(t, gcr.Options{MetadataHost: listener.Addr().String()}), &plugin.Request{Image: "gcr.io/p/app"})
	listener.Close()
	if n := <-connections; n != 3 || err == nil || !strings.Contains(err.Error(), ", 3 times") {
		t.Errorf("%d connections: %v", n, err)
	}
}

// TestRefusedConnection verifies that a refused connection is reported soon, and that no other
// endpoint is called.
func TestRefusedConnection(t *testing.T) {
	gone := testenv.FreeAddr(t)
	w := newTestCloud(t)
	_, err := getCredentials(t, w.newProvider(t, gcr.Options{MetadataHost: gone}), &plugin.Request{Image: "gcr.io/p/app"})
	want := `registry "gcr.io": get the node's access token: GET http://` + gone + testcloud.GoogleTokenPath +
		": connection refused, 3 times; a node outside Google Cloud has no metadata server, so --sts-audience is required"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	// The fake network has no server for this universe domain.
	p := w.newProvider(t, gcr.Options{STSAudience: "pool", UniverseDomain: "universe.example"})
	_, err = getCredentials(t, p, podRequest("gcr.io/p/app"))
	if err == nil || !strings.Contains(err.Error(), "POST https://sts.universe.example/v1/token: ") {
		t.Error(err)
	}
}

// TestAuthorityUnknown verifies that the error for an untrusted CA has a fix for the CA, and no
// hint about an unreachable server.
func TestAuthorityUnknown(t *testing.T) {
	w := newTestCloud(t)
	p := w.newProvider(t, gcr.Options{STSAudience: "pool", Transport: remote.WrapTransport(&http.Transport{Proxy: w.net.Transport().Proxy})})
	_, err := getCredentials(t, p, podRequest("gcr.io/p/app"))
	if err == nil || !strings.Contains(err.Error(), "to trust this CA, add it to the node's trust store") || strings.Contains(err.Error(), "HTTPS_PROXY") {
		t.Errorf("got the error %v, want the authority's cure alone", err)
	}
}
