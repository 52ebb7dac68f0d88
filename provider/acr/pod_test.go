// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

func TestServiceAccount(t *testing.T) {
	// azure.json does not affect a pod's identity.
	for _, config := range []string{managedIdentityConfig, servicePrincipalConfig, "", `{"tenantId":"node-tenant"}`} {
		w := newTestCloud(t, config)
		w.az.Update(func(s *testcloud.AzureState) {
			s.ClientID, s.Tenant, s.ClientAssertion = "client-1", "tenant-1", podToken.Reveal()
		})
		resp := w.mustGetCredentials(podRequest("foo.azurecr.io/app", identityAnnotations("client-1", "tenant-1")))
		if diff := cmp.Diff(expectedAuth("foo.azurecr.io"), authSummary(resp)); diff != "" {
			t.Errorf("keys (-want +got)\n%s", diff)
		}
		want := []string{"POST login.microsoftonline.com/tenant-1/oauth2/v2.0/token", challengeLine, exchangeLine}
		if diff := cmp.Diff(want, w.az.SortedRequestLines()); diff != "" {
			t.Errorf("requests (-want +got)\n%s", diff)
		}
	}
}

func TestServiceAccountAuthority(t *testing.T) {
	for _, test := range []struct{ cloud, region, host string }{
		{"AzureCloud", "", "login.microsoftonline.com"},
		{"AzurePublicCloud", "", "login.microsoftonline.com"},
		{"AZURECHINACLOUD", "", "login.chinacloudapi.cn"},
		{"AzureUSGovernment", "", "login.microsoftonline.us"},
		{"AzureUSGovernmentCloud", "", "login.microsoftonline.us"},
		{"whatever", "", "login.microsoftonline.com"},
		{"AzureCloud", "westeurope", "westeurope.login.microsoft.com"},
		{"AzureCloud", "evil.example/", "login.microsoftonline.com"},
		{"AzureCloud", "TryAutoDetect", "login.microsoftonline.com"},
	} {
		w := newTestCloud(t, `{"cloud":"`+test.cloud+`"}`)
		w.net.Handle("*.login.microsoft.com", w.az)
		w.env["AZURE_REGIONAL_AUTHORITY_NAME"] = test.region
		w.mustGetCredentials(podRequest("foo.azurecr.io/app", identityAnnotations("c", "t")))
		if got, want := w.findRequest(entraPath).Host, test.host; got != want {
			t.Errorf("%s %s: asked %q, want %q", test.cloud, test.region, got, want)
		}
	}
}

func TestServiceAccountIncomplete(t *testing.T) {
	set := func(change func(*Options)) func(*Options) { return change }
	fallback := set(func(o *Options) { o.FallbackToNode = true })
	client := map[string]string{clientIDAnnotation: "client-1"}
	tenant := map[string]string{tenantIDAnnotation: "tenant-1"}
	for _, test := range []struct {
		name        string
		annotations map[string]string
		opts        func(*Options)
		want        string // first request, or part of the error
	}{
		{"none", nil, nil, `service account "shop/cart" does not have the annotation kubernetes.azure.com/acr-client-id`},
		{"client alone", client, nil, "does not have the annotation kubernetes.azure.com/acr-tenant-id"},
		{"tenant alone", tenant, nil, "does not have the annotation kubernetes.azure.com/acr-client-id"},
		{"empty client", identityAnnotations("", "t"), nil, "does not have the annotation kubernetes.azure.com/acr-client-id"},
		{"empty tenant", identityAnnotations("c", ""), nil, "does not have the annotation kubernetes.azure.com/acr-tenant-id"},
		{"tenant that is a path", identityAnnotations("c", "../x"), nil, `"../x": use letters, digits, "." and "-"`},
		{"tenant with a query", identityAnnotations("c", "x?y"), nil, `use letters, digits, "." and "-"`},
		{"default tenant", client, func(o *Options) { o.DefaultTenantID = "tenant-2" }, "POST login.microsoftonline.com/tenant-2/oauth2/v2.0/token"},
		{"default client", tenant, func(o *Options) { o.DefaultClientID = "client-2" }, "POST login.microsoftonline.com/tenant-1/oauth2/v2.0/token"},
		{"default for an empty one", identityAnnotations("c", ""), func(o *Options) { o.DefaultTenantID = "tenant-2" }, "does not have the annotation kubernetes.azure.com/acr-tenant-id"},
		{"fallback", nil, fallback, imdsLine},
		{"fallback with half", client, fallback, "does not have the annotation kubernetes.azure.com/acr-tenant-id"},
		{"fallback with empty ones", identityAnnotations("", ""), fallback, "does not have the annotation kubernetes.azure.com/acr-client-id"},
		{"fallback with defaults", nil, func(o *Options) {
			o.FallbackToNode, o.DefaultClientID, o.DefaultTenantID = true, "c", "tenant-2"
		}, "POST login.microsoftonline.com/tenant-2/oauth2/v2.0/token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestCloud(t, managedIdentityConfig)
			if test.opts != nil {
				test.opts(&w.opts)
			}
			req := podRequest("foo.azurecr.io/app", test.annotations)
			if strings.HasPrefix(test.want, "POST") || test.want == imdsLine {
				w.mustGetCredentials(req)
				if got := w.az.SortedRequestLines()[0]; got != test.want {
					t.Errorf("asked %q, want %q", got, test.want)
				}
				return
			}
			w.checkError(req, "credentials for foo.azurecr.io: ", test.want)
			w.checkNoTokenRequest()
		})
	}
}

// TestMirrorIsTheNodes verifies that a mirrored image is pulled with the node's identity.
func TestMirrorIsTheNodes(t *testing.T) {
	w := newTestCloud(t, managedIdentityConfig)
	w.opts.RegistryMirrors = []string{"mcr.microsoft.com:foo.azurecr.io"}
	w.opts.Binding = Binding{SNIName: "ib.example", APIServer: "127.0.0.1:1"}
	w.mustGetCredentials(podRequest("mcr.microsoft.com/app", nil))
	if got := w.az.SortedRequestLines()[0]; got != imdsLine {
		t.Errorf("asked %q first", got)
	}
}

func noWrap(h http.Handler) http.Handler { return h }

// serveIdentityBinding starts an endpoint for identity bindings at example.com and configures the provider to use
// it.
func (w *testCloud) serveIdentityBinding(wrap func(http.Handler) http.Handler) *testcloud.Azure {
	az := testcloud.NewAzure()
	w.t.Cleanup(az.Close)
	server := httptest.NewUnstartedServer(wrap(az))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	w.t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	w.opts.Binding = Binding{SNIName: "example.com", APIServer: server.Listener.Addr().String(), CAFile: w.writeFile("ca.crt", string(ca))}
	return az
}

func TestIdentityBinding(t *testing.T) {
	for _, test := range []struct {
		name        string
		annotations map[string]string
		opts        func(*Options)
		tenant      string // sent in the exchange
		want        string // part of the error
	}{
		{"by annotation", map[string]string{clientIDAnnotation: "client-1"}, nil, "node-tenant", ""},
		{"by both annotations", identityAnnotations("client-1", "tenant-1"), nil, "tenant-1", ""},
		{"by default", nil, func(o *Options) {
			o.Binding.DefaultClientID, o.Binding.DefaultTenantID = "client-1", "tenant-2"
		}, "tenant-2", ""},
		{"default of the other way", nil, func(o *Options) { o.DefaultClientID = "client-1" }, "", "does not have the annotation kubernetes.azure.com/acr-client-id"},
		{"none", nil, nil, "", "does not have the annotation kubernetes.azure.com/acr-client-id"},
		{"empty", map[string]string{clientIDAnnotation: ""}, func(o *Options) { o.Binding.DefaultClientID = "client-1" }, "", "does not have the annotation kubernetes.azure.com/acr-client-id"},
		{"another name", map[string]string{clientIDAnnotation: "client-1"}, func(o *Options) { o.Binding.SNIName = "other.example" }, "", "x509: certificate is valid for example.com"},
		{"another authority", map[string]string{clientIDAnnotation: "client-1"}, func(o *Options) { o.Binding.CAFile = o.ConfigFile }, "", "no certificate in PEM format"},
		{"no authority", map[string]string{clientIDAnnotation: "client-1"}, func(o *Options) { o.Binding.CAFile = "/nonexistent/ca.crt" }, "", `"/nonexistent/ca.crt": no such file or directory`},
		{"refused", map[string]string{clientIDAnnotation: "client-1"}, func(o *Options) { o.Binding.APIServer = "127.0.0.1:1" }, "", `POST https://example.com/: connection refused, 3 times; the request was sent to 127.0.0.1:1`},
		{"fallback", nil, func(o *Options) { o.FallbackToNode = true }, "node-tenant", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestCloud(t, managedIdentityConfig)
			az := w.serveIdentityBinding(noWrap)
			az.Update(func(s *testcloud.AzureState) { s.ClientID, s.ClientAssertion = "client-1", podToken.Reveal() })
			if test.opts != nil {
				test.opts(&w.opts)
			}
			req := podRequest("foo.azurecr.io/app", test.annotations)
			if test.want != "" {
				w.checkError(req, test.want)
				w.checkNoTokenRequest()
				if len(az.RequestLines()) > 0 {
					t.Errorf("asked %q", az.RequestLines())
				}
				return
			}
			w.mustGetCredentials(req)
			if !w.opts.FallbackToNode {
				if diff := cmp.Diff([]string{"POST example.com/"}, az.RequestLines()); diff != "" {
					t.Errorf("requests (-want +got)\n%s", diff)
				}
			}
			requests := w.az.Requests()
			if got := requests[len(requests)-1].Form().Get("tenant"); got != test.tenant {
				t.Errorf("exchanged for tenant %q, want %q", got, test.tenant)
			}
		})
	}
}

func TestIdentityBindingWithoutToken(t *testing.T) {
	w := newTestCloud(t, managedIdentityConfig)
	az := w.serveIdentityBinding(noWrap)
	w.opts.Binding.DefaultClientID = "client-1"
	w.checkError(imageRequest("foo.azurecr.io/app"), "identity bindings require a service-account token, but the request has none", "--fallback-to-node-identity")
	w.opts.FallbackToNode = true
	w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
	if got := w.az.SortedRequestLines()[0]; got != imdsLine || len(az.RequestLines()) > 0 {
		t.Errorf("asked %q and %q", w.az.SortedRequestLines(), az.RequestLines())
	}
}

func TestBindingOptions(t *testing.T) {
	for _, test := range []struct {
		binding Binding
		want    string // part of the error
		address string
	}{
		{Binding{}, "", ""},
		{Binding{SNIName: "ib.example", APIServer: "10.0.0.1"}, "", "10.0.0.1:443"},
		{Binding{SNIName: "ib.example", APIServer: "fd00::1"}, "", "[fd00::1]:443"},
		{Binding{SNIName: "ib.example", APIServer: "[fd00::1]"}, "", "[fd00::1]:443"},
		{Binding{SNIName: "ib.example", APIServer: "api.example"}, "", "api.example:443"},
		{Binding{SNIName: "ib.example", APIServer: "api.example:6443"}, "", "api.example:6443"},
		{Binding{SNIName: "https://ib.example", APIServer: "10.0.0.1"}, "--ib-sni-name", ""},
		{Binding{SNIName: "http://ib.example", APIServer: "10.0.0.1"}, "--ib-sni-name", ""},
		{Binding{SNIName: "ib.example/x", APIServer: "10.0.0.1"}, "--ib-sni-name", ""},
		{Binding{SNIName: "ib.example"}, "needs --ib-apiserver-ip", ""},
		{Binding{SNIName: "ib.example", APIServer: "https://api"}, "must be an IP address or a host name", ""},
		{Binding{APIServer: "10.0.0.1"}, "--ib-apiserver-ip needs --ib-sni-name", ""},
		{Binding{DefaultClientID: "c"}, "--ib-default-client-id needs --ib-sni-name", ""},
		{Binding{DefaultTenantID: "t"}, "--ib-default-tenant-id needs --ib-sni-name", ""},
	} {
		_, err := New(Options{ConfigFile: "x", Binding: test.binding})
		switch {
		case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%+v: got error %v, want %q", test.binding, err, test.want)
		case test.address != "" && test.binding.apiServerAddress() != test.address:
			t.Errorf("%+v: got %q, want %q", test.binding, test.binding.apiServerAddress(), test.address)
		}
	}
}

var _ plugin.Provider = (*Provider)(nil)
