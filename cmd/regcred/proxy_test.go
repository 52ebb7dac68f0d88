// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// TestProxyStatus verifies that an error does not contain the status line of a proxy, which may
// return the proxy's password.
func TestProxyStatus(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		must.Do(t, err)
		defer conn.Close()
		conn.Write([]byte("HTTP/1.1 407 no " + canary.PasswordSecret + "\r\nContent-Length: 0\r\n\r\n"))
	}))
	defer proxy.Close()
	transport := must.Get(caFile("").registryTransport(t.Context()))(t).(*http.Transport)
	transport.Proxy = http.ProxyURL(must.Get(url.Parse(proxy.URL))(t))
	_, err := (&http.Client{Transport: transport}).Get("https://registry.example/v2/")
	if err == nil || !strings.Contains(err.Error(), "the proxy refused the connection: Proxy Authentication Required") {
		t.Fatalf("got %v", err)
	}
	canary.AssertAbsent(t, "the error", err.Error())
}
