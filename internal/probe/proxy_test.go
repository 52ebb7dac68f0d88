// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testenv"
	"github.com/regcred/regcred/internal/testregistry"
)

// queryThroughProxy queries registry.example, a name that only the proxy can resolve, and
// returns the result.
func queryThroughProxy(t *testing.T, caFile, proxy string, more ...string) *probe.Result {
	t.Helper()
	p := newProber(caFile)
	p.Runtime.Environ = append(p.Runtime.Environ, "HTTPS_PROXY="+proxy)
	p.Runtime.Environ = append(p.Runtime.Environ, more...)
	return p.Query(t.Context(), newHop("https", "registry.example"), goodCredentials())
}

// TestProxy verifies that the proxy in the runtime's environment is used.
func TestProxy(t *testing.T) {
	fakeNet := must.Get(testcloud.NewFakeNetwork())(t)
	t.Cleanup(fakeNet.Close)
	reg, err := testregistry.New(testregistry.Options{Auth: testregistry.AuthBearer, Users: map[string]string{"ci": canary.PasswordSecret}, TokenServerURL: "https://auth.example"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Close() })
	must.Get(reg.Push("team/app", "v1", testregistry.Image{}))(t)
	fakeNet.Handle("registry.example", reg)
	fakeNet.Handle("auth.example", reg)
	proxy := ""
	for _, v := range fakeNet.Environ() {
		if value, ok := strings.CutPrefix(v, "HTTPS_PROXY="); ok {
			proxy = value
		}
	}
	r := queryThroughProxy(t, fakeNet.CAFile(), strings.Replace(proxy, "://", "://user:"+canary.PasswordSecret+"@", 1))
	checkStep(t, r, "", "accepted")
	for _, want := range []string{"registry.example is reached through the proxy 127.0.0.1:", "(HTTPS_PROXY in the environment of containerd, process 812)", "the credential is sent to that host"} {
		if !strings.Contains(formatSteps(r), want) {
			t.Errorf("want %q", want)
		}
	}

	// The server's certificate is signed by the proxy's CA.
	checkStep(t, queryThroughProxy(t, newTestCA(t, "Our CA", nil).writeCAFile(t), proxy), probe.StepTLS, "CN=testcloud", "the proxy intercepts TLS")

	p := newProber(fakeNet.CAFile())
	p.Runtime.Environ = append(p.Runtime.Environ, "HTTPS_PROXY="+proxy)
	checkStep(t, p.Query(t.Context(), newHop("https", "gone.example"), goodCredentials()), probe.StepProxy,
		"refuses to connect to gone.example:443: HTTP 502 Bad Gateway", "NO_PROXY in the environment of containerd: gone.example")

	fakeNet.Handle("auth.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	checkStep(t, queryThroughProxy(t, fakeNet.CAFile(), proxy), probe.StepToken, "HTTP 503", "try again later")
}

// TestProxyRefuses verifies the error for each response of a proxy, including invalid
// responses.
func TestProxyRefuses(t *testing.T) {
	answers := func(status int) string {
		return "http://" + startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }), nil)
	}
	checkStep(t, queryThroughProxy(t, "", answers(http.StatusProxyAuthRequired)), probe.StepProxy, "HTTP 407", "set the proxy's user name and password")
	checkStep(t, queryThroughProxy(t, "", answers(http.StatusForbidden)), probe.StepProxy, "HTTP 403", "allow the host in the proxy", "NO_PROXY")
	closed := testenv.FreeAddr(t)
	checkStep(t, queryThroughProxy(t, "", "http://"+closed), probe.StepTCP, "refused the connection", "check the proxy "+closed, "HTTPS_PROXY in the environment of containerd, process 812")

	// A proxy is never used for loopback, but the variable is checked anyway.
	p := newProber("")
	p.Runtime.Environ = append(p.Runtime.Environ, "HTTPS_PROXY=http://user:"+canary.PasswordSecret+"@%zz")
	r := p.Query(t.Context(), newHop("https", closed), nil)
	checkStep(t, r, probe.StepTCP)
	if !strings.Contains(formatSteps(r), "warning proxy: HTTPS_PROXY in the environment of containerd, process 812 is not a proxy address") {
		t.Error("the address is not named")
	}

	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { silent.Close() })
	checkStep(t, queryThroughProxy(t, "", "http://"+silent.Addr().String()), probe.StepProxy, "no response within 300ms")

	talks := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			io.WriteString(conn, "220 mail.example ESMTP\r\n")
			conn.Close()
		}
	}), nil)
	checkStep(t, queryThroughProxy(t, "", "http://"+talks), probe.StepProxy, "does not send a valid HTTP proxy")
}

// TestProxySchemes verifies that proxy URLs are used as in package http, and that an https
// proxy gets the password only over TLS.
func TestProxySchemes(t *testing.T) {
	user := "://user:" + canary.PasswordSecret + "@"
	ca := newTestCA(t, "Our CA", nil)
	var shown []string
	proxy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = append(shown, r.Method+" "+r.Header.Get("Proxy-Authorization"))
		w.WriteHeader(http.StatusForbidden)
	})
	plain := startServer(t, proxy, nil)
	secured := startServer(t, proxy, &tls.Config{Certificates: []tls.Certificate{ca.issueServerCert(t, nil)}})

	checkStep(t, queryThroughProxy(t, "", "socks5"+user+plain), probe.StepChallenge, "check the proxy "+plain)
	checkStep(t, queryThroughProxy(t, "", "ftp"+user+plain), probe.StepProxy, "HTTP 403")
	checkStep(t, queryThroughProxy(t, ca.writeCAFile(t), "https"+user+secured), probe.StepProxy, "HTTP 403")
	if len(shown) != 2 || !strings.HasPrefix(shown[1], "CONNECT Basic ") {
		t.Errorf("shown: %d", len(shown))
	}
	shown = nil
	checkStep(t, queryThroughProxy(t, newTestCA(t, "Their CA", nil).writeCAFile(t), "https"+user+secured), probe.StepProxy, "TLS connection to the proxy "+secured, "Our CA")
	checkStep(t, queryThroughProxy(t, ca.writeCAFile(t), "https"+user+plain), probe.StepProxy, "TLS connection to the proxy "+plain)
	if shown != nil {
		t.Errorf("a proxy that nobody vouches for is shown the password")
	}

	// For plain HTTP, the proxy forwards each request.
	p := newProber("")
	p.Runtime.Environ = append(p.Runtime.Environ, "HTTP_PROXY=http"+user+plain)
	checkStep(t, p.Query(t.Context(), newHop("http", "registry.example"), nil), probe.StepChallenge, "HTTP 403")
}
