// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testenv"
)

// startServer responds to every request with the same body.
func startServer(t *testing.T) *testcloud.Server {
	t.Helper()
	s := testcloud.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "well") }))
	t.Cleanup(s.Close)
	return s
}

// newFastClient returns a client with short delays.
func newFastClient() remote.Client {
	return remote.Client{UserAgent: "test", Backoff: time.Millisecond}
}

// callError returns the error of a failed call. The error must be an [*remote.Error] and
// contain no secret.
func callError(t *testing.T, c remote.Client, ctx context.Context, call remote.Call) *remote.Error {
	t.Helper()
	answer, err := c.Do(ctx, call)
	var failed *remote.Error
	if !errors.As(err, &failed) || answer != nil {
		t.Fatalf("got response %v and an error of type %T", answer, err)
	}
	canary.AssertAbsent(t, "the error", err.Error())
	return failed
}

func TestDo(t *testing.T) {
	for name, tt := range map[string]struct {
		call                      remote.Call
		method, body, contentType string
	}{
		"get":    {remote.Call{}, "GET", "", ""},
		"form":   {remote.Call{Form: url.Values{"a": {"b c"}}}, "POST", "a=b+c", "application/x-www-form-urlencoded"},
		"body":   {remote.Call{Body: []byte("{}"), Header: http.Header{"content-type": {"application/json"}}}, "POST", "{}", "application/json"},
		"method": {remote.Call{Method: http.MethodPut}, "PUT", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			call := tt.call
			call.URL = s.URL() + "/v1/token?q=1"
			answer := must.Get(newFastClient().Do(t.Context(), call))(t)
			if answer.Status != 200 || string(answer.Body) != "well" || answer.URL.Path != "/v1/token" {
				t.Errorf("got %d, %q from %v", answer.Status, answer.Body, answer.URL)
			}
			r := s.Requests()[0]
			got := []string{r.Method, r.Path, r.Query.Get("q"), string(r.Body), r.Header.Get("Content-Type"), r.Header.Get("User-Agent")}
			if diff := cmp.Diff([]string{tt.method, "/v1/token", "1", tt.body, tt.contentType, "test"}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFaults verifies the error and the number of attempts for each way in which an endpoint
// can fail.
func TestFaults(t *testing.T) {
	oauth := `{"error":"invalid_grant","error_description":"AADSTS700016: ` + canary.TokenSecret + `"}`
	long := strings.Repeat(canary.TokenSecret+" ", 10000) // longer than a buffered response
	for name, tt := range map[string]struct {
		fault testcloud.Fault
		call  remote.Call
		want  string // after "get a token: GET http://HOST/token: "
		asked int
	}{
		"400":                   {fault: testcloud.Fault{Status: 400, Body: oauth}, want: "status 400 Bad Request (invalid_grant, AADSTS700016)", asked: 1},
		"401":                   {fault: testcloud.Fault{Status: 401, Body: `{"error":{"code":401,"status":"UNAUTHENTICATED","message":"` + canary.TokenSecret + `"}}`}, want: "status 401 Unauthorized (UNAUTHENTICATED)", asked: 1},
		"403":                   {fault: testcloud.Fault{Status: 403, Body: `{"errors":[{"code":"DENIED"}]}`, Header: http.Header{"X-Request-Id": {"r-1"}}}, want: "status 403 Forbidden (DENIED) [request id r-1]", asked: 1},
		"404":                   {fault: testcloud.Fault{Status: 404, Body: canary.TokenSecret}, want: "status 404 Not Found", asked: 1},
		"404 that may pass":     {fault: testcloud.Fault{Status: 404, Times: -1}, call: remote.Call{RetryStatuses: []int{404}}, want: "status 404 Not Found, 3 times", asked: 3},
		"404, with patience":    {fault: testcloud.Fault{Status: 404, Times: -1}, call: remote.Call{RetryStatuses: []int{404}, RetryLonger: true}, want: "status 404 Not Found, 6 times", asked: 6},
		"400, with patience":    {fault: testcloud.Fault{Status: 400, Times: -1}, call: remote.Call{RetryStatuses: []int{404}, RetryLonger: true}, want: "status 400 Bad Request", asked: 1},
		"cut, with patience":    {fault: testcloud.Fault{Status: 200, Times: -1, Truncate: true, Body: long}, call: remote.Call{RetryLonger: true}, want: "the connection was closed before the response was complete, 3 times", asked: 3},
		"404 that is an answer": {fault: testcloud.Fault{Status: 404}, call: remote.Call{AcceptStatuses: []int{200, 404}}, asked: 1},
		"204":                   {fault: testcloud.Fault{Status: 204}, want: "status 204 No Content", asked: 1},
		"408":                   {fault: testcloud.Fault{Status: 408}, asked: 2},
		"429":                   {fault: testcloud.Fault{Status: 429, Header: http.Header{"Retry-After": {"0"}}}, asked: 2},
		"500":                   {fault: testcloud.Fault{Status: 500}, asked: 2},
		"501":                   {fault: testcloud.Fault{Status: 501}, want: "status 501 Not Implemented", asked: 1},
		"502 twice":             {fault: testcloud.Fault{Status: 502, Times: 2}, asked: 3},
		"503 always":            {fault: testcloud.Fault{Status: 503, Times: -1}, want: "status 503 Service Unavailable, 3 times", asked: 3},
		"504":                   {fault: testcloud.Fault{Status: 504}, asked: 2},
		"redirect in a circle":  {fault: testcloud.Fault{Status: 307, Times: -1, Header: http.Header{"Location": {"/token"}}}, want: "redirect loop", asked: 4},
		"redirect to nowhere":   {fault: testcloud.Fault{Status: 307}, want: "status 307 Temporary Redirect", asked: 1},
		"redirect to nonsense":  {fault: testcloud.Fault{Status: 302, Times: -1, Header: http.Header{"Location": {"http://[" + canary.TokenSecret}}}, want: "the response is not valid HTTP, 3 times", asked: 3},
		"redirect elsewhere":    {fault: testcloud.Fault{Status: 302, Header: http.Header{"Location": {"http://evil.example/?t=" + canary.TokenSecret}}}, want: `did not follow a redirect to another host, "evil.example"`, asked: 1},
		"redirect far away":     {fault: testcloud.Fault{Status: 302, Header: http.Header{"Location": {"http://" + strings.Repeat("x", 100) + canary.TokenSecret}}}, want: `did not follow a redirect to another host, "` + strings.Repeat("x", 100) + `"`, asked: 1},
		"redirect on the host":  {fault: testcloud.Fault{Status: 302, Header: http.Header{"Location": {"/elsewhere"}}}, asked: 2},
		"huge":                  {fault: testcloud.Fault{Status: 200, Body: strings.Repeat(canary.TokenSecret, 1<<20)}, want: "the response is longer than 1048576 bytes", asked: 1},
		"cut":                   {fault: testcloud.Fault{Status: 200, Times: -1, Truncate: true, Body: long}, want: "the connection was closed before the response was complete, 3 times", asked: 3},
		"cut once":              {fault: testcloud.Fault{Status: 200, Truncate: true, Body: long}, asked: 2},
		"cut error":             {fault: testcloud.Fault{Status: 403, Truncate: true, Body: long}, want: "status 403 Forbidden", asked: 1},
		"request id too odd":    {fault: testcloud.Fault{Status: 403, Header: http.Header{"X-Request-Id": {"a b"}}}, want: "status 403 Forbidden", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			s.Inject(tt.fault)
			call := tt.call
			call.Step, call.URL = "get a token", s.URL()+"/token?secret="+canary.ArgSecret
			if tt.want == "" {
				if _, err := newFastClient().Do(t.Context(), call); err != nil {
					t.Error(err)
				}
			} else {
				err := callError(t, newFastClient(), t.Context(), call)
				if got, want := err.Error(), "get a token: GET "+s.URL()+"/token: "+tt.want; got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
			if got := len(s.Requests()); got != tt.asked {
				t.Errorf("asked %d times, want %d", got, tt.asked)
			}
		})
	}
}

// TestRedirectKeepsTheHost verifies that a redirect to another scheme or host is not
// followed.
func TestRedirectKeepsTheHost(t *testing.T) {
	other, s := startServer(t), startServer(t)
	for _, location := range []string{other.URL() + "/token", strings.Replace(s.URL(), "http:", "https:", 1) + "/token"} {
		s.Inject(testcloud.Fault{Status: 307, Header: http.Header{"Location": {location}}})
		err := callError(t, newFastClient(), t.Context(), remote.Call{URL: s.URL(), Form: url.Values{"t": {canary.TokenSecret}}})
		if err.Status != http.StatusTemporaryRedirect || !strings.Contains(err.Error(), "redirect to another host") {
			t.Errorf("status %d: %v", err.Status, err)
		}
	}
	if got := other.Requests(); len(got) != 0 {
		t.Errorf("the other host was called: %v", got[0])
	}
}

func TestBadAddress(t *testing.T) {
	for _, address := range []string{"", "ftp://host/", "http://", "/path", "http://[", "http://a b/", canary.TokenSecret} {
		err := callError(t, newFastClient(), t.Context(), remote.Call{Step: "ask", URL: address})
		if err.Attempts != 1 || !strings.HasSuffix(err.Error(), "the address is not an http or https URL") {
			t.Errorf("%d attempts: %v", err.Attempts, err)
		}
	}
}

func TestEndpoint(t *testing.T) {
	for address, want := range map[string]string{
		"https://user:" + canary.PasswordSecret + "@host:1/path?q=" + canary.TokenSecret + "#f": "https://host:1/path",
		"http://[::1]/": "http://[::1]/", "nonsense": "(not a URL)", "http://[": "(not a URL)",
	} {
		if got := remote.RedactEndpoint(address); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestNotHTTP verifies that an error does not quote an invalid response, as Go's error does,
// because it may contain a token.
func TestNotHTTP(t *testing.T) {
	for name, text := range map[string]string{
		"garbage":  canary.TokenSecret + "\r\n\r\n",
		"status":   "HTTP/1.1 " + canary.TokenSecret + "\r\n\r\n",
		"header":   "HTTP/1.1 200 OK\r\n" + canary.TokenSecret + "\r\n\r\n",
		"length":   "HTTP/1.1 200 OK\r\nContent-Length: " + canary.TokenSecret + "\r\n\r\n",
		"encoding": "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + canary.TokenSecret + "\r\n\r\n",
		"chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + canary.TokenSecret + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			err := callError(t, newFastClient(), t.Context(), remote.Call{Step: "ask", URL: rawServer(t, text)})
			if !strings.HasSuffix(err.Error(), "the response is not valid HTTP, 3 times") {
				t.Error(err)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		err := callError(t, newFastClient(), t.Context(), remote.Call{Step: "ask", URL: rawServer(t, "")})
		if err.Attempts != 3 {
			t.Error(err)
		}
	})
	t.Run("no TLS", func(t *testing.T) {
		s := startServer(t)
		err := callError(t, newFastClient(), t.Context(), remote.Call{Step: "ask", URL: strings.Replace(s.URL(), "http:", "https:", 1)})
		if !strings.HasSuffix(err.Error(), "http: server gave HTTP response to HTTPS client") {
			t.Error(err)
		}
	})
}

// TestProtocolSwitch verifies that a response with status 101 is an error at once. net/http would hand over the
// connection, and reads from it would have no timeout.
func TestProtocolSwitch(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		conn.Read(make([]byte, 4096))
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		conn.Read(make([]byte, 1)) // until the client closes
		conn.Close()
	}()
	host := listener.Addr().String()
	err := callError(t, newFastClient(), t.Context(), remote.Call{Step: "ask", URL: "http://" + host})
	if want := fmt.Sprintf(`ask: GET http://%s: %q switched to another protocol (HTTP 101), which was not requested`, host, host); err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

// rawServer sends the same text to every client.
func rawServer(t *testing.T, text string) (address string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	t.Cleanup(func() { listener.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 4096))
			io.WriteString(conn, text)
			conn.Close()
		}
	}()
	return "http://" + listener.Addr().String()
}

func TestRefused(t *testing.T) {
	failed := callError(t, newFastClient(), t.Context(), remote.Call{Step: "ask", URL: "http://" + testenv.FreeAddr(t)})
	if !strings.HasSuffix(failed.Error(), ": connection refused, 3 times") {
		t.Error(failed)
	}
}

func TestUnknownAuthority(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	failed := callError(t, newFastClient(), t.Context(), remote.Call{Step: "ask", URL: s.URL})
	if failed.Attempts != 1 || !strings.Contains(failed.Error(), "certificate") {
		t.Errorf("%d attempts: %v", failed.Attempts, failed)
	}
}

// TestProxyFails verifies that an error of the proxy names the proxy, not the endpoint.
func TestProxyFails(t *testing.T) {
	refusing := testcloud.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, canary.TokenSecret, http.StatusProxyAuthRequired)
	}))
	defer refusing.Close()
	for proxy, want := range map[string]string{
		refusing.URL():                  "the proxy refused the connection: Proxy Authentication Required, 3 times",
		"http://" + testenv.FreeAddr(t): "cannot reach the proxy: connection refused, 3 times",
	} {
		base := remote.NewBaseTransport()
		base.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy) }
		client := newFastClient()
		client.Transport = remote.WrapTransport(base)
		failed := callError(t, client, t.Context(), remote.Call{Step: "ask", URL: "https://sts.example/v1/token"})
		if got := failed.Error(); !strings.HasSuffix(got, want) {
			t.Error(got)
		}
	}
}

func TestTimeout(t *testing.T) {
	s := startServer(t)
	s.Inject(testcloud.Fault{Hang: true, Times: -1})
	client := newFastClient()
	client.Timeout = 20 * time.Millisecond
	failed := callError(t, client, t.Context(), remote.Call{Step: "ask", URL: s.URL()})
	if !strings.HasSuffix(failed.Error(), "no response within 20ms, 3 times") {
		t.Error(failed)
	}
	// If the caller's context ends, the call returns the cause of the context.
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errors.New("that was all"))
	defer cancel()
	failed = callError(t, newFastClient(), ctx, remote.Call{Step: "ask", URL: s.URL()})
	if failed.Attempts != 1 || !strings.HasSuffix(failed.Error(), ": that was all") {
		t.Errorf("%d attempts: %v", failed.Attempts, failed)
	}
}

func TestAttempts(t *testing.T) {
	s := startServer(t)
	s.Inject(testcloud.Fault{Status: 500, Times: -1})
	if failed := callError(t, newFastClient(), t.Context(), remote.Call{URL: s.URL()}); failed.Attempts != 3 {
		t.Errorf("%d attempts", failed.Attempts)
	}
}

// TestLongRetryAfter verifies that a call fails immediately if Retry-After exceeds the
// deadline.
func TestLongRetryAfter(t *testing.T) {
	for name, after := range map[string]string{
		"seconds": "3000", "date": time.Now().Add(24 * 365 * time.Hour).UTC().Format(http.TimeFormat),
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			s.Inject(testcloud.Fault{Status: 429, Header: http.Header{"Retry-After": {after}}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			failed := callError(t, newFastClient(), ctx, remote.Call{Step: "ask", URL: s.URL()})
			if got := len(s.Requests()); got != 1 || failed.Status != 429 {
				t.Errorf("%d requests: %v", got, failed)
			}
		})
	}
}

// TestConnectionsAreClosed verifies that a call without a Transport leaves no connection
// open.
func TestConnectionsAreClosed(t *testing.T) {
	closed := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "well") }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	s.Start()
	defer s.Close()
	must.Get(newFastClient().Do(t.Context(), remote.Call{URL: s.URL}))(t)
	select {
	case <-closed:
	case <-time.After(5 * time.Second): // less than the idle timeout
		t.Error("the connection is still open")
	}
}
