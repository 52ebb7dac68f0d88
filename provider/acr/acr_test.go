// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
)

// anonymous is the part of every answer that has no secret.
func withAnonymous(hosts ...string) map[string]string {
	m := map[string]string{"*.azurecr.*": ""}
	for _, host := range hosts {
		m[host] = refreshUser + ":token"
	}
	return m
}

func TestManagedIdentity(t *testing.T) {
	for _, test := range []struct {
		name, config string
		state        func(*testcloud.AzureState)
		query        map[string]string
	}{
		{"system-assigned", managed, func(s *testcloud.AzureState) { s.Tenant = "node-tenant" }, nil},
		{"by client", `{"useManagedIdentityExtension":true,"userAssignedIdentityID":"id-1"}`,
			func(s *testcloud.AzureState) { s.ClientID = "id-1" }, map[string]string{"client_id": "id-1"}},
		{"by resource", `{"useManagedIdentityExtension":true,"userAssignedIdentityID":"/SUBSCRIPTIONS/1/id"}`,
			func(s *testcloud.AzureState) { s.Resource = "/SUBSCRIPTIONS/1/id" }, map[string]string{"msi_res_id": "/SUBSCRIPTIONS/1/id"}},
		{"rather than a secret", `{"useManagedIdentityExtension":true,"aadClientId":"msi","aadClientSecret":"msi"}`, nil, nil},
		{"in another cloud", `{"useManagedIdentityExtension":true,"cloud":"AzureChinaCloud"}`, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.config)
			if test.state != nil {
				w.az.Set(test.state)
			}
			resp := w.answers(image("foo.azurecr.io/app"))
			if diff := cmp.Diff(withAnonymous("foo.azurecr.io"), keys(resp)); diff != "" {
				t.Errorf("keys (-want +got)\n%s", diff)
			}
			if resp.CacheKeyType != plugin.CacheRegistry || *resp.CacheDuration != time.Hour {
				t.Errorf("cached for %v %v, want Registry 1h", resp.CacheKeyType, *resp.CacheDuration)
			}
			if diff := cmp.Diff([]string{imdsLine, pingLine, exchangeLine}, w.az.Lines()); diff != "" {
				t.Errorf("requests (-want +got)\n%s", diff)
			}
			first := w.az.Requests()[0]
			for name, want := range test.query {
				if got := first.Query.Get(name); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestManagedIdentityElsewhere(t *testing.T) {
	for _, test := range []struct {
		name    string
		environ func(*testcloud.Azure) []string
		id      string
		line    string
	}{
		{"App Service", (*testcloud.Azure).AppServiceEnviron, "id-1", "GET 127.0.0.1/appservice/token"},
		{"Cloud Shell", (*testcloud.Azure).CloudShellEnviron, "", "POST 127.0.0.1/cloudshell/token"},
		{"Machine Learning", (*testcloud.Azure).MachineLearningEnviron, "id-1", "GET 127.0.0.1/machinelearning/token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, `{"useManagedIdentityExtension":true,"userAssignedIdentityID":"`+test.id+`"}`)
			w.az.Set(func(s *testcloud.AzureState) { s.ClientID = test.id })
			w.setenv(test.environ(w.az))
			w.answers(image("foo.azurecr.io/app"))
			if got := strings.ReplaceAll(w.az.Lines()[0], w.az.Addr(), "127.0.0.1"); got != test.line {
				t.Errorf("asked %q, want %q", got, test.line)
			}
		})
	}
	t.Run("user-assigned in Cloud Shell", func(t *testing.T) {
		w := newWorld(t, `{"useManagedIdentityExtension":true,"userAssignedIdentityID":"id-1"}`)
		w.setenv(w.az.CloudShellEnviron())
		w.fails(image("foo.azurecr.io/app"), "get a token of the node's managed identity: Cloud Shell doesn't support user-assigned")
	})
}

// TestServiceFabric: the certificate is pinned by the SDK, which takes the
// transport for that as it is.
func TestServiceFabric(t *testing.T) {
	w := newWorld(t, managed)
	blanks := ""
	w.net.Handle("fabric.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Secret") != canary.Token || r.URL.Query().Get("resource") != resource {
			rw.WriteHeader(http.StatusBadRequest)
		}
		io.WriteString(rw, blanks)
		fmt.Fprintf(rw, `{"access_token":%q,"expires_on":%d}`, canary.Token+"-access", time.Now().Add(time.Hour).Unix())
	}))
	resp, err := (&http.Client{Transport: w.net.Transport()}).Get("https://fabric.test/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	thumbprint := sha1.Sum(resp.TLS.PeerCertificates[0].Raw)
	w.setenv([]string{"IDENTITY_ENDPOINT=https://fabric.test/token", "IDENTITY_HEADER=" + canary.Token, fmt.Sprintf("IDENTITY_SERVER_THUMBPRINT=%x", thumbprint)})
	if diff := cmp.Diff(withAnonymous("foo.azurecr.io"), keys(w.answers(image("foo.azurecr.io/app")))); diff != "" {
		t.Errorf("keys (-want +got)\n%s", diff)
	}
	blanks = strings.Repeat(" ", 1<<20)
	w.fails(image("foo.azurecr.io/app"), "GET https://fabric.test/token: the connection ended before the answer did")
	w.setenv([]string{fmt.Sprintf("IDENTITY_SERVER_THUMBPRINT=%x", sha1.Sum(nil))})
	w.fails(image("foo.azurecr.io/app"), "get a token of the node's managed identity: GET https://fabric.test/token: its certificate is not that of IDENTITY_SERVER_THUMBPRINT")
}

// TestArc: what is wrong with the key that the agent names is said, and not
// that it was named.
func TestArc(t *testing.T) {
	w := newWorld(t, managed)
	header := ""
	w.net.Handle("arc.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Www-Authenticate", header)
		rw.WriteHeader(http.StatusUnauthorized)
	}))
	w.setenv([]string{"IDENTITY_ENDPOINT=http://arc.test/token", "IMDS_ENDPOINT=http://arc.test"})
	for challenge, want := range map[string]string{
		"Basic realm=/nonexistent/" + canary.Token + "/arc.key": "invalid file path",
		"Basic realm=/nonexistent/arc." + canary.Token:          "invalid file extension",
		"Bearer " + canary.Token:                                "basic realm= not found",
	} {
		if header = challenge; runtime.GOOS != "linux" && runtime.GOOS != "windows" {
			want = "platform not supported"
		}
		w.fails(image("foo.azurecr.io/app"), "get a token of the node's managed identity: ", want)
	}
}

func TestServicePrincipal(t *testing.T) {
	w := newWorld(t, principal)
	w.az.Set(func(s *testcloud.AzureState) {
		s.ClientID, s.Tenant, s.Secret = "node-client", "node-tenant", canary.Password
	})
	resp := w.answers(image("foo.azurecr.io/app"))
	if diff := cmp.Diff(withAnonymous("foo.azurecr.io"), keys(resp)); diff != "" {
		t.Errorf("keys (-want +got)\n%s", diff)
	}
	want := []string{"POST login.microsoftonline.com/node-tenant/oauth2/v2.0/token", pingLine, exchangeLine}
	if diff := cmp.Diff(want, w.az.Lines()); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

func TestStaticSecret(t *testing.T) {
	four := []string{"*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us"}
	for _, test := range []struct {
		name, image string
		own         string // suffix of the cloud
		more        []string
	}{
		{"registry", "foo.azurecr.io/app", "", nil},
		{"regional", "foo.eastus.geo.azurecr.io/app", "", []string{"foo.eastus.geo.azurecr.io"}},
		{"port", "foo.azurecr.io:443/app", "", []string{"foo.azurecr.io:443"}},
		{"own cloud", "foo.azurecr.stack.example/app", ".azurecr.stack.example", []string{"*.azurecr.stack.example"}},
		{"own cloud of another form", "foo.azsacr.stack.example/app", ".azsacr.stack.example", []string{"foo.azsacr.stack.example"}},
		{"source of a mirror", "mcr.microsoft.com/app", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, strings.Replace(principal, "{", `{"cloud":"AzureStackCloud",`, 1))
			w.opts.StaticSecret, w.opts.Mirrors = true, []string{"mcr.microsoft.com:foo.azurecr.io"}
			w.env["AZURE_ENVIRONMENT_FILEPATH"] = w.file("env.json", `{"containerRegistryDNSSuffix":"`+test.own+`"}`)
			want := map[string]string{"*.azurecr.*": ""}
			for _, key := range append(four, test.more...) {
				want[key] = "node-client:secret"
			}
			resp := w.answers(image(test.image))
			if diff := cmp.Diff(want, keys(resp)); diff != "" {
				t.Errorf("keys (-want +got)\n%s", diff)
			}
			if len(w.az.Lines()) > 0 {
				t.Errorf("asked %q", w.az.Lines())
			}
		})
	}
	t.Run("a cloud that cannot be read", func(t *testing.T) {
		w := newWorld(t, strings.Replace(principal, "{", `{"cloud":"AzureStackCloud",`, 1))
		w.opts.StaticSecret = true
		w.env["AZURE_ENVIRONMENT_FILEPATH"] = "/nonexistent/env.json"
		w.fails(image("foo.azurecr.io/app"), "/nonexistent/env.json")
	})
	t.Run("not for a pod", func(t *testing.T) {
		w := newWorld(t, principal)
		w.opts.StaticSecret = true
		resp := w.answers(pod("foo.azurecr.io/app", annotations("client-1", "tenant-1")))
		if diff := cmp.Diff(withAnonymous("foo.azurecr.io"), keys(resp)); diff != "" {
			t.Errorf("keys (-want +got)\n%s", diff)
		}
	})
}

func TestFederatedTokenFile(t *testing.T) {
	w := newWorld(t, "")
	path := w.file("token", canary.Token+"\n")
	w.opts.ConfigFile = w.file("azure.json", `{"tenantId":"node-tenant","aadClientId":"node-client","useFederatedWorkloadIdentityExtension":true,"aadFederatedTokenFile":"`+path+`"}`)
	w.az.Set(func(s *testcloud.AzureState) { s.Assertion = canary.Token })
	w.answers(image("foo.azurecr.io/app"))
	for name, text := range map[string]string{"missing": "", "empty": " \n"} {
		t.Run(name, func(t *testing.T) {
			path := "/nonexistent/token"
			if text != "" {
				path = w.file("token", text)
			}
			w.opts.ConfigFile = w.file("azure.json", `{"tenantId":"t","aadClientId":"c","useFederatedWorkloadIdentityExtension":true,"aadFederatedTokenFile":"`+path+`"}`)
			w.fails(image("foo.azurecr.io/app"), `aadFederatedTokenFile "`+path+`": `)
		})
	}
}

func TestCertificate(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	w := newWorld(t, "")
	config := func(path string) string {
		return w.file("azure.json", `{"cloud":"AzureUSGovernment","tenantId":"node-tenant","aadClientId":"node-client","aadClientCertPath":"`+path+`"}`)
	}
	w.opts.ConfigFile = config(w.file("cert.pem", text))
	w.az.Set(func(s *testcloud.AzureState) { s.Tenant = "node-tenant" })
	w.answers(image("foo.azurecr.us/app"))
	lines := strings.Join(w.az.Lines(), "\n")
	if !strings.Contains(lines, "POST login.microsoftonline.us/node-tenant/oauth2/v2.0/token") {
		t.Errorf("asked\n%s", lines)
	}
	w.az.Inject(testcloud.Fault{Path: "oauth2/v2.0/token", Status: 401, Times: -1, Body: `{"error":"invalid_client","error_description":"AADSTS700027 ` + canary.Token + `"}`})
	w.fails(image("foo.azurecr.us/app"), "login.microsoftonline.us/node-tenant/oauth2/v2.0/token: status 401 Unauthorized (invalid_client, AADSTS700027)", "check tenantId")
	w.opts.ConfigFile = config(w.file("cert.pem", canary.Password))
	w.fails(image("foo.azurecr.us/app"), "it is not a certificate with an RSA key")
	w.opts.ConfigFile = config("/nonexistent/cert.pem")
	w.fails(image("foo.azurecr.us/app"), `aadClientCertPath "/nonexistent/cert.pem": no such file`)
}

func TestNobody(t *testing.T) {
	for name, config := range map[string]string{
		"empty":         ``,
		"object":        `{}`,
		"without id":    `{"aadClientSecret":"` + canary.Password + `"}`,
		"without proof": `{"aadClientId":"node-client"}`,
		"no file":       `{"aadClientId":"node-client","useFederatedWorkloadIdentityExtension":true}`,
		"data plane":    `{"aadClientId":"node-client","aadMSIDataPlaneIdentityPath":"/x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, config)
			w.fails(image("foo.azurecr.io/app"), "names no identity", "set useManagedIdentityExtension")
			if len(w.az.Lines()) > 0 {
				t.Errorf("asked %q", w.az.Lines())
			}
		})
	}
}

func TestKeys(t *testing.T) {
	for _, test := range []struct {
		image   string
		want    []string
		cacheBy plugin.CacheKeyType
		server  string
	}{
		{"foo.azurecr.io/app", []string{"foo.azurecr.io"}, plugin.CacheRegistry, "foo.azurecr.io"},
		{"foo.azurecr.io:443/app", []string{"foo.azurecr.io:443"}, plugin.CacheRegistry, "foo.azurecr.io"},
		{"FOO.azurecr.io/app", []string{"FOO.azurecr.io"}, plugin.CacheRegistry, "foo.azurecr.io"},
		{"foo-abc1.azurecr.cn/app", []string{"foo-abc1.azurecr.cn"}, plugin.CacheRegistry, "foo-abc1.azurecr.cn"},
		{"foo.eastus.geo.azurecr.io/app", []string{"foo.eastus.geo.azurecr.io"}, plugin.CacheRegistry, "foo.eastus.geo.azurecr.io"},
		{"quay.io/app", []string{"quay.io", "boot.azurecr.io"}, plugin.CacheRegistry, "boot.azurecr.io"},
		{"mcr.microsoft.com/app", []string{"mcr.microsoft.com", "boot.azurecr.io"}, plugin.CacheImage, "boot.azurecr.io"},
		{"mcr.microsoft.com/oss/app", []string{"mcr.microsoft.com/oss", "oss.azurecr.io"}, plugin.CacheImage, "oss.azurecr.io"},
		{"bar.azurecr.io/app", []string{"bar.azurecr.io"}, plugin.CacheImage, "bar.azurecr.io"},
		{"pull.example.com/app", []string{"pull.example.com"}, plugin.CacheRegistry, "pull.example.com"},
	} {
		t.Run(test.image, func(t *testing.T) {
			w := newWorld(t, managed)
			w.net.Handle("pull.example.com", w.az)
			w.opts.AllowHosts = []string{"pull.example.com"}
			w.opts.Mirrors = []string{"mcr.microsoft.com:boot.azurecr.io,mcr.microsoft.com/oss:oss.azurecr.io", "quay.io:boot.azurecr.io,bar.azurecr.io/team:oss.azurecr.io"}
			resp := w.answers(image(test.image))
			if diff := cmp.Diff(withAnonymous(test.want...), keys(resp)); diff != "" {
				t.Errorf("keys (-want +got)\n%s", diff)
			}
			if resp.CacheKeyType != test.cacheBy {
				t.Errorf("cached by %v, want %v", resp.CacheKeyType, test.cacheBy)
			}
			if got, want := w.az.Lines()[1], "GET "+test.server+"/v2/"; got != want {
				t.Errorf("asked %q, want %q", got, want)
			}
		})
	}
}

func TestForeignHosts(t *testing.T) {
	for _, name := range []string{
		"mcr.microsoft.com/x", "docker.io/library/x", "evilazurecr.io/x", "foo.azurecr.io.example/x", "azurecr.io.evil.example/x",
		"docker.io/azurecr.io/x", "foo.eastus.data.azurecr.io/x", "foo.azurecr.stack.example/x", "/", "a b.azurecr.io/x",
	} {
		for kind, config := range map[string]string{"good": managed, "bad": "{", "principal": principal} {
			t.Run(name+" "+kind, func(t *testing.T) {
				w := newWorld(t, config)
				// None of these is looked at.
				w.opts.Binding = Binding{SNIName: "ib.example", APIServer: "127.0.0.1:1"}
				resp := w.answers(pod(name, nil))
				if len(resp.Auth) != 0 || resp.CacheKeyType != plugin.CacheRegistry || *resp.CacheDuration != 0 {
					t.Errorf("got %v %v %v", keys(resp), resp.CacheKeyType, *resp.CacheDuration)
				}
				if len(w.az.Lines()) > 0 {
					t.Errorf("asked %q", w.az.Lines())
				}
				if !strings.Contains(w.log.String(), "level=WARN msg=\"not an Azure container registry") {
					t.Errorf("log:\n%s", w.log)
				}
			})
		}
	}
}

// TestForeignTarget: the target of a mirror is held to the same rule.
func TestForeignTarget(t *testing.T) {
	w := newWorld(t, managed)
	w.opts.Mirrors = []string{"mcr.microsoft.com:evilazurecr.io"}
	if resp := w.answers(image("mcr.microsoft.com/x")); len(resp.Auth) != 0 || len(w.az.Lines()) != 0 {
		t.Errorf("got %v after %q", keys(resp), w.az.Lines())
	}
}

func TestOwnCloud(t *testing.T) {
	const metadata = `[{"name":"Other","authentication":{"loginEndpoint":"https://login.other.example"},"suffixes":{"acrLoginServer":"azurecr.other.example"}},
		{"name":"Own","authentication":{"loginEndpoint":"https://login.own.example/","audiences":[]},"suffixes":{"acrLoginServer":"azurecr.own.example"}}]`
	newOwn := func(t *testing.T, config string) *world {
		w := newWorld(t, config)
		w.az.Set(func(s *testcloud.AzureState) { s.Metadata = metadata })
		for _, host := range []string{"*.own.example", "*.azurecr.own.example", "*.file.example"} {
			w.net.Handle(host, w.az)
		}
		return w
	}
	const ask = "GET arm.own.example/metadata/endpoints"
	t.Run("resource manager", func(t *testing.T) {
		w := newOwn(t, `{"cloud":"own","resourceManagerEndpoint":"https://arm.own.example/"}`)
		resp := w.answers(pod("foo.azurecr.own.example/x", annotations("c", "t")))
		if diff := cmp.Diff(withAnonymous("foo.azurecr.own.example"), keys(resp)); diff != "" {
			t.Errorf("keys (-want +got)\n%s", diff)
		}
		want := []string{ask, "POST login.own.example/t/oauth2/v2.0/token", "GET foo.azurecr.own.example/v2/", "POST foo.azurecr.own.example/oauth2/exchange"}
		if diff := cmp.Diff(want, w.az.Lines()); diff != "" {
			t.Errorf("requests (-want +got)\n%s", diff)
		}
	})
	t.Run("behind an allowed host", func(t *testing.T) {
		w := newOwn(t, `{"cloud":"own","useManagedIdentityExtension":true,"resourceManagerEndpoint":"https://arm.own.example/"}`)
		w.net.Handle("pull.example.com", w.az)
		w.opts.AllowHosts = []string{"pull.example.com"}
		fault := challengeFault(`Bearer realm="https://foo.azurecr.own.example/oauth2/token",service="foo.azurecr.own.example"`)
		fault.Path = "/v2/"
		w.az.Inject(fault)
		w.answers(image("pull.example.com/x"))
		want := []string{imdsLine, "GET pull.example.com/v2/", ask, "POST foo.azurecr.own.example/oauth2/exchange"}
		if diff := cmp.Diff(want, w.az.Lines()); diff != "" {
			t.Errorf("requests (-want +got)\n%s", diff)
		}
	})
	t.Run("foreign", func(t *testing.T) {
		w := newOwn(t, `{"cloud":"own","resourceManagerEndpoint":"https://arm.own.example/"}`)
		resp := w.answers(image("foo.azurecr.other.example/x"))
		if diff := cmp.Diff([]string{ask}, w.az.Lines()); len(resp.Auth) != 0 || diff != "" {
			t.Errorf("got %v, requests (-want +got)\n%s", keys(resp), diff)
		}
	})
	t.Run("not asked for a known host", func(t *testing.T) {
		w := newOwn(t, `{"useManagedIdentityExtension":true,"resourceManagerEndpoint":"https://arm.own.example/"}`)
		w.answers(image("foo.azurecr.io/x"))
		if diff := cmp.Diff([]string{imdsLine, pingLine, exchangeLine}, w.az.Lines()); diff != "" {
			t.Errorf("requests (-want +got)\n%s", diff)
		}
	})
	t.Run("environment file", func(t *testing.T) {
		w := newOwn(t, `{"cloud":"azurestackcloud","resourceManagerEndpoint":"https://arm.own.example/"}`)
		w.env["AZURE_ENVIRONMENT_FILEPATH"] = w.file("env.json", `{"name":"x","ActiveDirectoryEndpoint":"https://login.file.example/","containerRegistryDNSSuffix":".azsacr.file.example"}`)
		w.answers(pod("foo.azsacr.file.example/x", annotations("c", "t")))
		if got, want := w.az.Lines()[1], "POST login.file.example/t/oauth2/v2.0/token"; got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
	})
	t.Run("environment file of another cloud", func(t *testing.T) {
		w := newOwn(t, managed)
		w.env["AZURE_ENVIRONMENT_FILEPATH"] = "/nonexistent/env.json"
		w.answers(image("foo.azurecr.io/x"))
	})
	for name, test := range map[string]struct {
		config, env, metadata string
		fault                 *testcloud.Fault
		want                  string
	}{
		"bad configuration of an own cloud": {"{", "/nonexistent/env.json", metadata, nil, "neither JSON nor YAML"},
		"missing environment file":          {`{"cloud":"AzureStackCloud"}`, "/nonexistent/env.json", metadata, nil, `environment file "/nonexistent/env.json" (AZURE_ENVIRONMENT_FILEPATH): no such file`},
		"metadata that is none":             {`{"resourceManagerEndpoint":"https://arm.own.example"}`, "", `<html>` + canary.Token, nil, "arm.own.example for the cloud's endpoints: its answer is not a list"},
		"metadata refused": {`{"resourceManagerEndpoint":"https://arm.own.example"}`, "", metadata, &testcloud.Fault{Status: 403, Body: canary.Token},
			"GET https://arm.own.example/metadata/endpoints: status 403 Forbidden; see resourceManagerEndpoint"},
		"no URL": {`{"resourceManagerEndpoint":"arm.own.example"}`, "", metadata, nil, "not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOwn(t, test.config)
			w.az.Set(func(s *testcloud.AzureState) { s.Metadata = test.metadata })
			w.env["AZURE_ENVIRONMENT_FILEPATH"] = test.env
			if test.fault != nil {
				w.az.Inject(*test.fault)
			}
			w.fails(image("foo.azurecr.own.example/x"), test.want)
		})
	}
	for name, endpoint := range map[string]string{"plain": "http://login.own.example", "garbage": "login.own.example", "user": "https://u@login.own.example"} {
		t.Run("login endpoint "+name, func(t *testing.T) {
			w := newOwn(t, `{"resourceManagerEndpoint":"https://arm.own.example"}`)
			w.az.Set(func(s *testcloud.AzureState) {
				s.Metadata = `[{"name":"Own","authentication":{"loginEndpoint":"` + endpoint + `"}}]`
			})
			w.fails(pod("foo.azurecr.io/x", annotations("c", "t")), "is not a URL of https")
		})
	}
}

func TestCacheFor(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for _, test := range []struct {
		name   string
		claims map[string]any
		want   time.Duration
	}{
		{"three hours", map[string]any{"iat": at(0), "exp": at(3 * time.Hour)}, time.Hour},
		{"one hour", map[string]any{"iat": at(0), "exp": at(time.Hour)}, 30 * time.Minute},
		{"not issued", map[string]any{"exp": at(time.Hour)}, 30 * time.Minute},
		{"the node is ahead", map[string]any{"iat": at(-50 * time.Minute), "exp": at(10 * time.Minute)}, 5 * time.Minute},
		{"the node is behind", map[string]any{"iat": at(50 * time.Minute), "exp": at(60 * time.Minute)}, 5 * time.Minute},
		{"over", map[string]any{"iat": at(-2 * time.Hour), "exp": at(-time.Hour)}, 0},
		{"nearly over", map[string]any{"exp": at(time.Second)}, 0},
		{"backwards", map[string]any{"iat": at(2 * time.Hour), "exp": at(time.Hour)}, 0},
		{"no end", map[string]any{"iat": at(0)}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, managed)
			w.opts.Now = func() time.Time { return now }
			w.az.Set(func(s *testcloud.AzureState) { s.RefreshToken = testcloud.AzureJWT(test.claims) })
			if got := *w.answers(image("foo.azurecr.io/x")).CacheDuration; got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	t.Run("opaque", func(t *testing.T) {
		w := newWorld(t, managed)
		w.az.Set(func(s *testcloud.AzureState) { s.RefreshToken = "opaque" })
		if got := *w.answers(image("foo.azurecr.io/x")).CacheDuration; got != 0 || !strings.Contains(w.log.String(), "does not say when it ends") {
			t.Errorf("got %v; log:\n%s", got, w.log)
		}
	})
}

// TestPull: what the plugin answers is what a registry takes.
func TestPull(t *testing.T) {
	refresh := testcloud.AzureJWT(map[string]any{"exp": time.Now().Add(3 * time.Hour).Unix(), "jti": canary.Password})
	reg, err := testregistry.New(testregistry.Options{
		Auth: testregistry.Bearer, BaseURL: "https://foo.azurecr.io", Users: map[string]string{testcloud.ACRUser: refresh},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	if _, err := reg.Push("team/app", "v1", testregistry.Image{}); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, managed)
	w.az.Set(func(s *testcloud.AzureState) { s.RefreshToken, s.Registry = refresh, reg })
	auth := w.answers(image("foo.azurecr.io/team/app")).Auth["foo.azurecr.io"]
	ref, err := name.ParseReference("foo.azurecr.io/team/app:v1")
	if err != nil {
		t.Fatal(err)
	}
	for password, works := range map[string]bool{auth.Password.Reveal(): true, canary.Password: false} {
		_, err := remote.Image(ref, remote.WithTransport(w.net.Transport()), remote.WithAuth(&authn.Basic{Username: auth.Username, Password: password}))
		if (err == nil) != works {
			t.Errorf("pulled: %v, want %v", err == nil, works)
		}
	}
}

func TestUserAgents(t *testing.T) {
	for _, config := range []string{managed, principal} {
		w := newWorld(t, strings.Replace(config, "{", `{"userAgent":"kubelet-of-mine",`, 1))
		w.answers(image("foo.azurecr.io/x"))
		for i, want := range []string{"kubelet-of-mine", userAgent, userAgent} {
			if got := w.az.Requests()[i].Header.Get("User-Agent"); got != want {
				t.Errorf("request %d: got %q, want %q", i, got, want)
			}
		}
	}
}

func TestLocalTransportTakesNoProxy(t *testing.T) {
	p, err := New(Options{ConfigFile: "x"})
	if err != nil {
		t.Fatal(err)
	}
	s := p.newSession(image("foo.azurecr.io/x"))
	defer s.close()
	if s.localTransport().(*http.Transport).Proxy != nil {
		t.Error("managed identities are asked for through a proxy")
	}
}
