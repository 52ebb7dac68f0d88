// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcloud_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
)

func TestFakeNetwork(t *testing.T) {
	server := testcloud.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "here "+r.Host) }))
	defer server.Close()
	fakeNet := must.Get(testcloud.NewFakeNetwork())(t)
	defer fakeNet.Close()
	fakeNet.Handle("sts.googleapis.com", server)
	fakeNet.Handle("*.azurecr.io", server)
	client := &http.Client{Transport: fakeNet.Transport()}
	for _, url := range []string{"https://sts.googleapis.com/v1/token", "http://sts.googleapis.com/v1/token", "https://a.b.azurecr.io/v2/"} {
		resp := must.Get(client.Get(url))(t)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got, want := string(body), "here "+resp.Request.URL.Host; got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
	if _, err := client.Get("https://elsewhere.example/"); err == nil {
		t.Error("https://elsewhere.example/: answered")
	}
	if got := fakeNet.UnknownHosts(); len(got) != 1 || got[0] != "elsewhere.example:443" {
		t.Errorf("strays: %q", got)
	}
	if got := len(server.Requests()); got != 3 {
		t.Errorf("recorded %d requests, want 3", got)
	}
}

// TestServeTLS verifies that the TLS server name selects the handler for clients that use no proxy.
func TestServeTLS(t *testing.T) {
	server := testcloud.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto+" here "+r.Host) }))
	defer server.Close()
	fakeNet := must.Get(testcloud.NewFakeNetwork())(t)
	defer fakeNet.Close()
	fakeNet.Handle("sts.googleapis.com", server)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	fakeNet.ServeTLS(listener)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: fakeNet.CAPool()},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, listener.Addr().String())
		},
	}}
	defer client.CloseIdleConnections()
	resp := must.Get(client.Get("https://sts.googleapis.com/v1/token"))(t)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if got, want := string(body), "HTTP/2.0 here sts.googleapis.com"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := client.Get("https://elsewhere.example/"); err == nil {
		t.Error("https://elsewhere.example/: answered")
	}
	if got := fakeNet.UnknownHosts(); len(got) != 1 || got[0] != "elsewhere.example" {
		t.Errorf("strays: %q", got)
	}
}
