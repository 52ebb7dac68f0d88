// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// interimServer is a server that requires a Bearer token and sends informational
// responses at a path, for ever.
func interimServer(t *testing.T, h2 bool, path string, status int) *httptest.Server {
	t.Helper()
	done := make(chan struct{})
	var srv *httptest.Server
	srv = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != path && path == "/token":
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+srv.URL+`/token"`)
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path != path:
			http.Redirect(w, r, path, http.StatusTemporaryRedirect)
		case status == http.StatusSwitchingProtocols:
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			<-done
		default:
			for {
				select {
				case <-done:
					return
				case <-r.Context().Done():
					return
				case <-time.After(10 * time.Millisecond):
					w.WriteHeader(status)
				}
			}
		}
	}))
	srv.EnableHTTP2 = h2
	srv.StartTLS()
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(done) })
	return srv
}

// TestInterimResponses verifies that a request ends if the server sends a response with status 101, which hands over the
// connection, or sends other informational responses for ever: from the registry, after a redirect, and from a token server.
func TestInterimResponses(t *testing.T) {
	for _, tt := range []struct {
		h2     bool
		path   string
		status int
		want   error
		text   string
	}{
		{false, "/blob", 101, nil, "switched to another protocol (HTTP 101)"},
		{false, "/token", 101, nil, "switched to another protocol (HTTP 101)"},
		{false, "/v2/app/manifests/v1", 101, nil, "switched to another protocol (HTTP 101)"},
		{false, "/blob", 103, errIdleTimeout, ""},
		{true, "/blob", 103, errIdleTimeout, ""},
		{false, "/token", 103, errIdleTimeout, ""},
		{true, "/token", 102, errIdleTimeout, ""},
		{false, "/v2/app/manifests/v1", 100, errIdleTimeout, ""},
		{true, "/v2/app/manifests/v1", 100, errIdleTimeout, ""},
	} {
		t.Run(fmt.Sprintf("HTTP 2 %t %s %d", tt.h2, tt.path, tt.status), func(t *testing.T) {
			t.Parallel()
			srv := interimServer(t, tt.h2, tt.path, tt.status)
			host := srv.Listener.Addr().String()
			inner := &http.Transport{
				TLSClientConfig:   &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs},
				ForceAttemptHTTP2: tt.h2,
			}
			t.Cleanup(inner.CloseIdleConnections)
			r := &Registry{
				Target: must.Get(NewTarget(must.Get(name.NewRegistry(host))(t), "repository:app:pull", false))(t), Secrets: &Secrets{}, Transport: inner,
				IdleTimeout: 300 * time.Millisecond, ResponseTimeout: 300 * time.Millisecond, Retry: RetryOptions{Attempts: 1},
			}
			done := make(chan error, 1)
			go func() {
				s, err := r.Login(t.Context(), newCredential("good", canary.PasswordSecret))
				if err != nil {
					done <- err
					return
				}
				req := must.Get(http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/v2/app/manifests/v1", nil))(t)
				resp, err := (&http.Client{Transport: s}).Do(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil || !errors.Is(err, tt.want) && tt.want != nil || !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), host) {
					t.Errorf("got %v, want %v %q", err, tt.want, tt.text)
				}
			case <-time.After(5 * time.Second):
				t.Error("no error")
			}
		})
	}
}
