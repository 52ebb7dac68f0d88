// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/testregistry"
)

// TestRefreshTokens verifies concurrent downloads if each first request gets a 401, and the
// token server issues refresh tokens. They must not be used instead of the credential.
func TestRefreshTokens(t *testing.T) {
	reg, image, _ := startRegistryWith(t, testregistry.Options{}, testregistry.Image{Layers: 8})
	var srv *httptest.Server
	var issued atomic.Int64
	var refused sync.Map // by path
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			if r.PostFormValue("grant_type") != "password" {
				t.Errorf("a login by %s without the credential", r.Method)
			}
			n := issued.Add(1)
			name := []string{"refresh_token", "Refresh_Token"}[n%2] // encoding/json accepts both
			fmt.Fprintf(w, `{"access_token":"t%d",%q:"r"}`, n, name)
			return
		}
		_, again := refused.LoadOrStore(r.URL.Path, true)
		if strings.Contains(r.URL.Path, "/blobs/") && !again || r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+srv.URL+`/token",service="s"`)
			w.WriteHeader(401)
			return
		}
		reg.ServeHTTP(w, r)
	}))
	defer srv.Close()
	image = strings.TrimPrefix(srv.URL, "http://") + strings.TrimPrefix(image, reg.Addr())
	mustPull(t, &Puller{Retry: fastRetry, Parallel: 8}, image, []regcred.Credential{goodCredential}, t.TempDir())
}
