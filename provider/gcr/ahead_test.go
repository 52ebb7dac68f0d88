// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/plugin"
)

// TestConnectsToImpersonationAhead verifies that the provider connects to the impersonation service
// during the STS request, if it will call that service. In this test, STS responds only after the
// connection exists.
func TestConnectsToImpersonationAhead(t *testing.T) {
	for _, account := range []string{"", "a@p.iam.gserviceaccount.com"} {
		connected := make(chan struct{}, 10)
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Host, "sts.") {
				if account != "" {
					select {
					case <-connected:
					case <-time.After(5 * time.Second):
						t.Error("no connection is opened before the response of STS")
					}
				}
				io.WriteString(w, `{"access_token":"federated","expires_in":3600}`)
				return
			}
			io.WriteString(w, `{"accessToken":"impersonated"}`)
		}))
		defer s.Close()
		p := must.Get(New(Options{STSAudience: "a", Impersonate: true, UniverseDomain: "example.com"}))(t)
		base := remote.NewBaseTransport()
		base.Proxy = nil
		base.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
		base.TLSClientConfig.RootCAs.AddCert(s.Certificate())
		base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasPrefix(addr, "iamcredentials.") {
				connected <- struct{}{}
			}
			// All hosts lead to the test server, whose certificate is only for example.com.
			return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
		}
		base.TLSClientConfig.ServerName = "example.com"
		p.externalTransport = remote.WrapTransport(base)
		resp, err := p.GetCredentials(t.Context(), &plugin.Request{
			Image: "gcr.io/p/app", ServiceAccountToken: plugin.NewSecret("token"),
			ServiceAccountAnnotations: map[string]string{AnnotationAccount: account},
		})
		if err != nil || len(resp.Auth) == 0 {
			t.Errorf("%v, %v", resp, err)
		}
		if account == "" && len(connected) > 0 {
			t.Error("connected to a service that is not called")
		}
	}
}
