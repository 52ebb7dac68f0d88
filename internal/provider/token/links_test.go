// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// startTLS starts a TLS server. It also returns its CA file and a channel that is closed at the
// first connection.
func startTLS(t *testing.T, handler http.HandlerFunc) (server *httptest.Server, caFile string, connected <-chan struct{}) {
	t.Helper()
	first := make(chan struct{})
	server = httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // some clients connect but send no request
	server.Config.ConnState = func() func(net.Conn, http.ConnState) {
		var once sync.Once
		return func(net.Conn, http.ConnState) { once.Do(func() { close(first) }) }
	}()
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, writeSecretFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), 0o644), first
}

// TestConnectsAhead verifies that the provider connects to the second endpoint while it waits for
// the first one, and that it sends the requests in order.
func TestConnectsAhead(t *testing.T) {
	var login, read *httptest.Server
	asked := make(chan string, 10)
	read, readCA, connected := startTLS(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- "read"
		io.WriteString(w, secretResponse)
	})
	login, loginCA, _ := startTLS(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-connected:
		case <-time.After(10 * time.Second):
			t.Error("nobody has connected to the second endpoint")
		}
		asked <- "login"
		io.WriteString(w, loginResponse)
	})
	p := newProvider(t, Options{Registries: []string{"registry.example"}, Username: "u", Exchange: &Exchange{Steps: []Step{
		{"login", Exchange{URL: login.URL, JSON: "{token}", CAFile: loginCA}},
		{"read", Exchange{URL: read.URL, Headers: map[string]string{"X-Token": "{answer:login.auth.client_token}"}, CAFile: readCA, Response: Response{Secret: "data.password"}}},
	}}})
	got, err := getOutcome(t, p, newRequest(serviceAccountToken(nil), nil))
	if err != nil || got.Password != canary.PasswordSecret {
		t.Errorf("error %v, or another password", err)
	}
	close(asked)
	var order []string
	for name := range asked {
		order = append(order, name)
	}
	if len(order) != 2 || order[0] != "login" {
		t.Errorf("asked %q", order)
	}
}

// TestConnectsToItsOwn verifies that the provider does not connect to the endpoint if the image is
// on another host or if there is no token.
func TestConnectsToItsOwn(t *testing.T) {
	server, ca, connected := startTLS(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, secretResponse) })
	p := newProvider(t, exchangeOptions(&Exchange{URL: server.URL, TokenExchange: &TokenExchange{}, CAFile: ca}))
	other := newRequest(serviceAccountToken(nil), nil)
	other.Image = "evil.example/app"
	_, err := getOutcome(t, p, other)
	checkError(t, err, "evil.example")
	_, err = getOutcome(t, p, newRequest("", nil))
	checkError(t, err, "no service-account token")
	select {
	case <-connected:
		t.Error("somebody connected")
	case <-time.After(50 * time.Millisecond):
	}
}
