// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote_test

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/remote"
)

// TestCauseOfProxysTLS verifies the errors for an https proxy that does not use TLS or has an
// untrusted certificate. These errors are not retried.
func TestCauseOfProxysTLS(t *testing.T) {
	stranger := newTestCA(t, "Proxy CA", time.Now().Add(time.Hour), nil).serveTLS(t, time.Now().Add(time.Hour), echoHandler)
	for name, tt := range map[string]struct {
		proxy string
		trust *tls.Config
		want  string
	}{
		"own authorities":    {stranger.URL, clientConfig(newTestCA(t, "other", time.Now().Add(time.Hour), nil)), "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		"system authorities": {stranger.URL, nil, `the server's certificate was issued by an untrusted CA, "CN=Proxy CA"`},
		"no TLS":             {strings.Replace(rawServer(t, "220 mail.example ESMTP\r\n"), "http:", "https:", 1), nil, "tls: first record does not look like a TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.trust == nil && runtime.GOOS != "linux" {
				t.Skip("other systems verify by themselves")
			}
			proxy := must.Get(url.Parse(tt.proxy))(t)
			base := remote.NewBaseTransport()
			base.Proxy, base.TLSClientConfig = http.ProxyURL(proxy), tt.trust
			client := newFastClient()
			client.Transport = remote.WrapTransport(base)
			failed := callError(t, client, t.Context(), remote.Call{Step: "ask", URL: "https://sts.example"})
			if got, want := failed.Error(), "cannot reach the proxy: "+tt.want; failed.Attempts != 1 || !strings.Contains(got, want) {
				t.Errorf("%d attempts: %s; want %q", failed.Attempts, got, want)
			}
		})
	}
}
