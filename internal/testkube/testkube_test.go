// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/must"
)

func newServer(t *testing.T, opts Options) *Server {
	t.Helper()
	s := must.Get(New(opts))(t)
	t.Cleanup(s.Close)
	return s
}

// requestAsAdmin sends a request as Admin and returns the status and the body of the response.
func requestAsAdmin(t *testing.T, s *Server, method, path, body string) (int, []byte) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body)))(t)
	req.Header.Set("Authorization", "Bearer "+s.Token(Admin))
	resp := must.Get(s.tlsServer.Client().Do(req))(t)
	defer resp.Body.Close()
	var raw json.RawMessage
	must.Do(t, json.NewDecoder(resp.Body).Decode(&raw))
	return resp.StatusCode, raw
}

// TestToken verifies that a token is a JSON Web Token that contains the canary marker, or
// Options.Secret if it is set.
func TestToken(t *testing.T) {
	for _, tt := range []struct {
		secret  string
		planted bool
	}{{"", true}, {"open-sesame", false}} {
		s := newServer(t, Options{Secret: tt.secret})
		s.AddServiceAccount(ServiceAccount{Namespace: "ci", Name: "builder"})
		code, body := requestAsAdmin(t, s, http.MethodPost, "/api/v1/namespaces/ci/serviceaccounts/builder/token", `{"spec":{"audiences":["a"]}}`)
		token := s.Requests()[0].Token.Reveal()
		claims, err := jwt.Parse(token)
		if code != http.StatusCreated || err != nil || len(claims.Audience) != 1 || claims.Audience[0] != "a" || claims.Expires.Sub(claims.IssuedAt).Hours() != 1 {
			t.Errorf("status %d, error %v, claims %v", code, err, claims)
		}
		if !strings.Contains(string(body), token) {
			t.Error("the token in the log is not the one in the response")
		}
		for what, text := range map[string]string{"token": token, "bearer token": s.Token("x")} {
			if got := canary.FindMarker(text) != ""; got != tt.planted {
				t.Errorf("secret %q: the %s is found: %v", tt.secret, what, got)
			}
		}
	}
}

// TestKubeconfig verifies that only the owner may read the kubeconfig file.
func TestKubeconfig(t *testing.T) {
	s := newServer(t, Options{})
	path := filepath.Join(t.TempDir(), "config")
	must.Do(t, s.Kubeconfig(path, Admin))
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
}

// TestStartStop verifies that the server restarts at the same address with the same objects.
func TestStartStop(t *testing.T) {
	s := newServer(t, Options{})
	s.AddServiceAccount(ServiceAccount{Namespace: "ci", Name: "builder", UID: "u"})
	url := s.URL()
	s.Stop()
	if _, err := s.tlsServer.Client().Get(url); err == nil {
		t.Error("it answers after Stop")
	}
	must.Do(t, s.Start())
	code, body := requestAsAdmin(t, s, http.MethodGet, "/api/v1/namespaces/ci/serviceaccounts/builder", "")
	var account corev1.ServiceAccount
	if err := json.Unmarshal(body, &account); err != nil || code != http.StatusOK || account.UID != "u" || s.URL() != url {
		t.Errorf("status %d, UID %q, address %s, error %v", code, account.UID, s.URL(), err)
	}
}
