// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

func TestRetryAfter(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	in := func(d time.Duration) string { return now.Add(d).UTC().Format(http.TimeFormat) }
	const none = -1
	for text, want := range map[string]time.Duration{
		"": none, "0": 0, "7": 7 * time.Second, "-7": 0, "999999999": time.Hour, "9999999999999999999999": none,
		"1.5": none, "soon": none, in(time.Minute): time.Minute, in(-time.Minute): 0, in(1000 * time.Hour): time.Hour,
	} {
		got, ok := RetryAfter(http.Header{"Retry-After": {text}}, now)
		if ok != (want != none) || got != max(want, 0) {
			t.Errorf("%q: got %v, %v, want %v", text, got, ok, want)
		}
	}
	if got, ok := RetryAfter(http.Header{}, now); ok || got != 0 {
		t.Errorf("without the header: got %v, %v", got, ok)
	}
}

func TestDelay(t *testing.T) {
	for attempt, most := range map[int]time.Duration{1: 250 * time.Millisecond, 2: 500 * time.Millisecond, 30: maxDelay} {
		for range 100 {
			if d := retryDelay(attempt, 250*time.Millisecond, 0); d < most/2 || d > most {
				t.Errorf("attempt %d: %v", attempt, d)
			}
		}
	}
	if d := retryDelay(1, 250*time.Millisecond, time.Minute); d != time.Minute {
		t.Errorf("the endpoint asks for a minute, and gets %v", d)
	}
}

func TestIsMetadataHost(t *testing.T) {
	for host, want := range map[string]bool{
		"169.254.169.254": true, "169.254.170.2": true, "fe80::1": true, "fe80::1%eth0": true, "::ffff:169.254.169.254": true,
		"fd00:ec2::254": true, "fd00:ec2::254%eth0": true, "fd20:ce::254": true,
		"metadata.google.internal": true, "Metadata.Google.Internal.": true, "metadata": true,
		"": false, "127.0.0.1": false, "10.0.0.1": false, "fd00::1": false, "metadata.google.internal.example": false,
		"169.254.169.254.example": false, "sts.googleapis.com": false,
	} {
		if got := IsMetadataHost(host); got != want {
			t.Errorf("%q: got %v", host, got)
		}
	}
}

// TestMain sets a proxy before Go reads the variable, which it does once per process.
// Requests to loopback do not use the proxy.
func TestMain(m *testing.M) {
	if addresses := os.Getenv(requestAddressesEnv); addresses != "" {
		sendRequests(strings.Fields(addresses))
		return
	}
	os.Setenv("HTTP_PROXY", "http://127.0.0.1:9")
	os.Setenv("NO_PROXY", "")
	os.Exit(m.Run())
}

// requestAddressesEnv is an environment variable that makes the test binary send requests to the addresses
// in its value, and exit. Each test needs its own process, because a process reads the
// system's CAs only once.
const requestAddressesEnv = "REMOTE_TEST_ASK"

// sendRequests calls the addresses in order with one transport and prints the results.
func sendRequests(addresses []string) {
	transport := NewTransport()
	if pem := os.Getenv(requestAddressesEnv + "_PEM"); pem != "" {
		if err := transport.AddCAs([]byte(pem)); err != nil {
			fmt.Println(err)
			return
		}
	}
	if os.Getenv(requestAddressesEnv+"_AHEAD") != "" {
		for _, address := range addresses {
			transport.Preconnect(context.Background(), address)
		}
	}
	client := Client{Transport: onceOnly{transport}, Backoff: time.Millisecond, Timeout: 20 * time.Second}
	for _, address := range addresses {
		answer, err := client.Do(context.Background(), Call{Step: "ask", URL: address, Form: url.Values{"a": {"b"}}})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%s\n", answer.Body)
	}
}

// onceOnly sends request bodies as the AWS SDK does. They have no GetBody, and are empty
// after Close.
type onceOnly struct{ *Transport }

func (o onceOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Body, req.GetBody = &sealedBody{Reader: req.Body}, nil
	return o.Transport.RoundTrip(req)
}

type sealedBody struct {
	io.Reader
	closed atomic.Bool
}

func (b *sealedBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, errors.New("read after it was closed")
	}
	return b.Reader.Read(p)
}

func (b *sealedBody) Close() error {
	b.closed.Store(true)
	return nil
}

// TestProxy verifies that requests to a metadata server never use a proxy.
func TestProxy(t *testing.T) {
	proxy := func(address string) *url.URL {
		u := must.Get(url.Parse(address))(t)
		return must.Get(Proxy(&http.Request{URL: u}))(t)
	}
	if got := proxy("http://169.254.169.254/latest"); got != nil {
		t.Errorf("a proxy for a metadata server: %v", got)
	}
	if proxy("http://registry.example/") == nil {
		t.Error("no proxy for others")
	}
}

func TestErrorCode(t *testing.T) {
	for body, want := range map[string]string{
		``: "", `x`: "", `[]`: "", `{"error":1}`: "", `{"error":{"status":1}}`: "", `{"errors":[]}`: "", `{"errors":[{}]}`: "",
		`{"error":"invalid_grant"}`: "invalid_grant",
		`{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret"}`: "invalid_client, AADSTS7000215",
		`{"error":"two words"}`:                       "",
		`{"error":"` + strings.Repeat("x", 80) + `"}`: strings.Repeat("x", 80), `{"error":"` + strings.Repeat("x", 81) + `"}`: "",
		`{"error":"a.b:c-d_E9"}`: "a.b:c-d_E9", `{"error":"é"}`: "",
		`{"error_description":"(AADSTS50012)"}`: "AADSTS50012", `{"error_description":"AADSTS123 AADSTS1234567890 xAADSTS50012 AADSTSabcd"}`: "",
		`{"error":{"code":403,"status":"PERMISSION_DENIED"}}`:   "PERMISSION_DENIED",
		`{"errors":[{"code":"UNAUTHORIZED"},{"code":"OTHER"}]}`: "UNAUTHORIZED",
	} {
		if got := errorCode([]byte(body)); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func FuzzErrorCode(f *testing.F) {
	for _, seed := range []string{`{"error":"a","error_description":"AADSTS1234"}`, `{"error":{"status":"B"}}`, `{"errors":[{"code":"C"}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		code := errorCode(body)
		if len(code) > 3*(80+2) {
			t.Errorf("%d bytes of code", len(code))
		}
		for _, c := range code {
			if c < ' ' || c > '~' {
				t.Errorf("%q", code)
			}
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"1", "-1", "Fri, 31 Dec 9999 23:59:59 GMT", canary.TokenSecret} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if d, ok := RetryAfter(http.Header{"Retry-After": {header}}, time.Now()); d < 0 || d > time.Hour || !ok && d != 0 {
			t.Errorf("%q: %v", header, d)
		}
	})
}
