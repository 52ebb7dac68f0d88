// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// TestDefaultTransportProxy verifies that errors of a Transport without Options.Transport do not
// contain the proxy's status line, which may return the proxy's password. It needs its own process,
// because net/http reads the proxy variables once.
func TestDefaultTransportProxy(t *testing.T) {
	if os.Getenv("REGCRED_TEST_PROXY_CHILD") != "" {
		ref := parseReference(t, "registry.example/team/app:v1")
		tr := mustTransport(t, New(newGoodKeyring(t, "registry.example"), Options{}), ref.Context())
		_, err := tr.RoundTrip(must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://registry.example/v2/team/app/manifests/v1", nil))(t))
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		must.Do(t, err)
		defer conn.Close()
		conn.Write([]byte("HTTP/1.1 407 you sent " + canary.Marker + "proxy\r\nContent-Length: 0\r\n\r\n"))
	}))
	defer proxy.Close()
	at := must.Get(url.Parse(proxy.URL))(t)
	at.User = url.UserPassword("node", canary.Marker+"proxy")
	child := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), "-test.run=^TestDefaultTransportProxy$")
	child.Env = append(os.Environ(), "REGCRED_TEST_PROXY_CHILD=1", "HTTPS_PROXY="+at.String())
	out, err := child.CombinedOutput()
	if want := "the proxy refused the connection: Proxy Authentication Required"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v\n%s\nwant in it: %s", err, out, want)
	}
	canary.AssertAbsent(t, "the error", string(out))
}
