// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/testenv"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
)

// testCA is a CA.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	by   []*x509.Certificate // certificates from this CA up to the root
}

func newTestCA(t *testing.T, name string, parent *testCA) *testCA {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &testCA{}
	a.cert, a.key = signCertificate(t, template, parent)
	if parent != nil {
		a.by = append([]*x509.Certificate{a.cert}, parent.by...)
	}
	return a
}

func signCertificate(t *testing.T, template *x509.Certificate, by *testCA) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer))(t)
	cert := must.Get(x509.ParseCertificate(der))(t)
	return cert, key
}

// issueServerCert issues a server certificate for 127.0.0.1. change may modify it.
func (a *testCA) issueServerCert(t *testing.T, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "registry"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(template)
	}
	cert, key := signCertificate(t, template, a)
	made := tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
	if a != nil {
		for _, c := range a.by {
			made.Certificate = append(made.Certificate, c.Raw)
		}
	}
	return made
}

// writeCAFile writes the CA's certificate to a file, and returns the path.
func (a *testCA) writeCAFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	must.Do(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600))
	return name
}

// startServer starts an HTTP server, with TLS if cfg is not nil, and returns its address.
func startServer(t *testing.T, handler http.Handler, cfg *tls.Config) string {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = cfg
	if cfg == nil {
		s.Start()
	} else {
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// newRegistry starts a registry with the image team/app:v1, which user ci may pull.
func newRegistry(t *testing.T, auth testregistry.Auth) *testregistry.Server {
	t.Helper()
	reg := must.Get(testregistry.New(testregistry.Options{Auth: auth, Users: map[string]string{"ci": canary.PasswordSecret}}))(t)
	t.Cleanup(func() { reg.Close() })
	must.Get(reg.Push("team/app", "v1", testregistry.Image{}))(t)
	return reg
}

func newCredential(user, password string) regcred.Credential {
	return regcred.Credential{Username: user, Password: plugin.NewSecret(password), Provider: "good"}
}

func goodCredentials() []regcred.Credential {
	return []regcred.Credential{newCredential("ci", canary.PasswordSecret)}
}

// newHop returns a hop to the image's own registry at addr.
func newHop(scheme, addr string) route.Hop {
	h := route.NewHop(scheme, addr, "v2", "team/app")
	h.IsOrigin = true
	return h
}

// newProber returns a prober for tag v1 and a containerd that trusts the CAs in caFile.
func newProber(caFile string) *probe.Prober {
	environ := []string{"SSL_CERT_DIR=/nonexistent", "SSL_CERT_FILE=" + caFile}
	return &probe.Prober{
		Image: probe.Image{Host: "registry.example", Tag: "v1"}, StepTimeout: 300 * time.Millisecond,
		Runtime: probe.Runtime{Name: "containerd", Source: "containerd, process 812", Environ: environ},
	}
}

func formatSteps(r *probe.Result) string {
	var b strings.Builder
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "%s %s: %s\n    fix: %s\n", s.Severity, s.Rule, s.Message, s.Fix)
	}
	return b.String()
}

// checkStep checks which step failed, and its message and fix. If step is "", no step may fail.
func checkStep(t *testing.T, r *probe.Result, step string, says ...string) {
	t.Helper()
	all := formatSteps(r)
	t.Log("\n" + all)
	if canary.FindMarker(all) != "" {
		t.Error("a password is shown")
	}
	failed := r.FailedStep()
	if step == "" {
		if failed != nil || !r.CanPull {
			t.Fatalf("it ends at %v, pulls: %v", failed, r.CanPull)
		}
		failed = &r.Steps[len(r.Steps)-1]
	} else if failed == nil || failed.Rule != step || failed.Severity != finding.SeverityError {
		t.Fatalf("want it to end at %s", step)
	}
	for _, s := range says {
		if !strings.Contains(failed.Message+"\n"+failed.Fix, s) {
			t.Errorf("want %q in %q and %q", s, failed.Message, failed.Fix)
		}
	}
}

func TestHealthy(t *testing.T) {
	for name, auth := range map[string]testregistry.Auth{"open": testregistry.AuthNone, "basic": testregistry.AuthBasic, "bearer": testregistry.AuthBearer} {
		t.Run(name, func(t *testing.T) {
			ca := newTestCA(t, "Our CA", nil)
			reg := newRegistry(t, auth)
			addr := startServer(t, reg, &tls.Config{Certificates: []tls.Certificate{ca.issueServerCert(t, nil)}})
			if auth == testregistry.AuthBearer {
				return // the token server does not use TLS; see TestPlainRealm
			}
			r := newProber(ca.writeCAFile(t)).Query(t.Context(), newHop("https", addr), goodCredentials())
			checkStep(t, r, "", "v1 exists, sha256:")
			if auth == testregistry.AuthBasic && r.Accepted != 0 {
				t.Errorf("accepted %d", r.Accepted)
			}
		})
	}
}

// TestPlain verifies that plain HTTP is used for a registry on loopback that does not respond
// over TLS.
func TestPlain(t *testing.T) {
	reg := newRegistry(t, testregistry.AuthBearer)
	h := newHop("https", reg.Addr())
	h.TriesHTTPSFirst = true
	r := newProber("/nonexistent").Query(t.Context(), h, goodCredentials())
	checkStep(t, r, "", "v1 exists")
	if r.Challenge == nil || r.Challenge.Scheme != "Bearer" || r.Challenge.Service != "testregistry" || r.Challenge.Scope != "repository:team/app:pull" {
		t.Errorf("challenge: %+v", r.Challenge)
	}
	for _, req := range reg.Requests() {
		if req.Path == "/v2/" {
			t.Error("/v2/ is asked, for which containerd does not ask")
		}
	}
}

// TestTLS verifies the error and the fix for each certificate problem.
func TestTLS(t *testing.T) {
	ca := newTestCA(t, "Our CA", nil)
	inter := newTestCA(t, "Intermediate", ca)
	tests := map[string]struct {
		cert   tls.Certificate
		change func(*tls.Config)
		says   []string
	}{
		"expired": {cert: ca.issueServerCert(t, func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-72 * time.Hour)
			c.NotBefore = time.Now().Add(-96 * time.Hour)
		}),
			says: []string{"expired 3 days ago", "this machine's clock shows", `"CN=registry" of "CN=Our CA"`, "renew the registry's certificate", "timedatectl"}},
		"not yet": {cert: ca.issueServerCert(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(2 * time.Hour) }),
			says: []string{"is not valid until ", "set the clock"}},
		"wrong name": {cert: ca.issueServerCert(t, func(c *x509.Certificate) { c.IPAddresses = nil; c.DNSNames = []string{"other.example"} }),
			says: []string{"is not valid for 127.0.0.1; names in the certificate: other.example"}},
		"common name": {cert: ca.issueServerCert(t, func(c *x509.Certificate) { c.IPAddresses = nil }),
			says: []string{"(the common name is ignored)", "subjectAltName"}},
		"unknown": {cert: newTestCA(t, "Their CA", nil).issueServerCert(t, nil),
			says: []string{`the CA "CN=Their CA"`, "(from SSL_CERT_FILE and SSL_CERT_DIR in the environment of containerd, process 812)", "/etc/containerd/certs.d/127.0.0.1:", "hosts.toml", "restart containerd"}},
		"self-signed": {cert: (*testCA)(nil).issueServerCert(t, nil), says: []string{"is self-signed"}},
		"intermediate": {cert: func() tls.Certificate {
			c := inter.issueServerCert(t, func(c *x509.Certificate) { c.IssuingCertificateURL = []string{"http://ca.example/i.crt"} })
			c.Certificate = c.Certificate[:1]
			return c
		}(), says: []string{`without the intermediate certificate "CN=Intermediate"`, "configure the registry to send the full chain (the intermediate is at http://ca.example/i.crt"}},
		"several": {cert: newTestCA(t, "Their CA", nil).issueServerCert(t, func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-time.Hour)
			c.NotBefore = time.Now().Add(-2 * time.Hour)
			c.IPAddresses = nil
		}), says: []string{"expired 1h", "; and its certificate", "is not valid for 127.0.0.1", "; and the CA"}},
		"old protocol": {cert: ca.issueServerCert(t, nil), change: func(c *tls.Config) { c.MinVersion = tls.VersionTLS10; c.MaxVersion = tls.VersionTLS11 },
			says: []string{"supports only TLS versions before 1.2", "TLS 1.2"}},
		"client certificate": {cert: ca.issueServerCert(t, nil), change: func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert },
			says: []string{"requires a client certificate"}},
		"client certificate, TLS 1.2": {cert: ca.issueServerCert(t, nil), change: func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert; c.MaxVersion = tls.VersionTLS12 },
			says: []string{"requires a client certificate", "client in /etc/containerd/certs.d/"}},
	}
	caFile := ca.writeCAFile(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			reg := newRegistry(t, testregistry.AuthBasic)
			cfg := &tls.Config{Certificates: []tls.Certificate{tt.cert}}
			if tt.change != nil {
				tt.change(cfg)
			}
			r := newProber(caFile).Query(t.Context(), newHop("https", startServer(t, reg, cfg)), goodCredentials())
			checkStep(t, r, probe.StepTLS, tt.says...)
			for _, req := range reg.Requests() {
				if req.Path != "/v2/team/app/manifests/v1" { // newRegistry pushes the image with PUT
					continue
				}
				if req.Method != http.MethodPut {
					t.Errorf("it is asked: %+v", req)
				}
			}
		})
	}
}

// TestConfiguredCA verifies that the CA file in hosts.toml is used, and that skip_verify is a
// warning.
func TestConfiguredCA(t *testing.T) {
	ca := newTestCA(t, "Our CA", nil)
	addr := startServer(t, newRegistry(t, testregistry.AuthBasic), &tls.Config{Certificates: []tls.Certificate{ca.issueServerCert(t, nil)}})
	h := newHop("https", addr)
	h.File, h.CA = "hosts.toml", []string{ca.writeCAFile(t)}
	checkStep(t, newProber("/nonexistent").Query(t.Context(), h, goodCredentials()), "", "accepted")

	h.CA = []string{filepath.Join(t.TempDir(), "gone.pem")}
	checkStep(t, newProber("/nonexistent").Query(t.Context(), h, goodCredentials()), probe.StepTLS, "read the CAs set in hosts.toml", "gone.pem")

	h.CA, h.SkipVerify = nil, true
	r := newProber("/nonexistent").Query(t.Context(), h, goodCredentials())
	checkStep(t, r, "", "accepted")
	if !strings.Contains(formatSteps(r), "warning tls") || !strings.Contains(formatSteps(r), "certificate verification is turned off in hosts.toml") {
		t.Error("the missing verification is not reported")
	}
}

// TestConnection verifies the errors of connections, and of servers that do not use TLS.
func TestConnection(t *testing.T) {
	closed := testenv.FreeAddr(t)
	checkStep(t, newProber("").Query(t.Context(), newHop("https", closed), nil), probe.StepTCP, "127.0.0.1 refused the connection", "check that the registry is running")

	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { silent.Close() })
	checkStep(t, newProber("").Query(t.Context(), newHop("https", silent.Addr().String()), nil), probe.StepTLS, "does not respond to a TLS handshake: no response within 300ms")
	checkStep(t, newProber("").Query(t.Context(), newHop("http", silent.Addr().String()), nil), probe.StepChallenge, "no response within 300ms")

	h := newHop("https", newRegistry(t, testregistry.AuthBasic).Addr())
	checkStep(t, newProber("").Query(t.Context(), h, nil), probe.StepTLS, "uses plain HTTP, not TLS", `server = "http://127.0.0.1:`)

	ca := newTestCA(t, "Our CA", nil)
	addr := startServer(t, newRegistry(t, testregistry.AuthBasic), &tls.Config{Certificates: []tls.Certificate{ca.issueServerCert(t, nil)}})
	checkStep(t, newProber("").Query(t.Context(), newHop("http", addr), nil), probe.StepTLS, "uses TLS, but the request uses plain HTTP")

	for _, host := range []string{"169.254.169.254", "metadata.google.internal", "[fd00:ec2::254]", "0.0.0.0"} {
		checkStep(t, newProber("").Query(t.Context(), newHop("http", host), goodCredentials()), probe.StepDNS, "never contacts")
	}
}

// TestRefused verifies the error for each error response of a registry.
func TestRefused(t *testing.T) {
	for name, auth := range map[string]testregistry.Auth{"basic": testregistry.AuthBasic, "bearer": testregistry.AuthBearer} {
		t.Run(name, func(t *testing.T) {
			reg := newRegistry(t, auth)
			step := map[testregistry.Auth]string{testregistry.AuthBasic: probe.StepManifest, testregistry.AuthBearer: probe.StepToken}[auth]
			wrong := newCredential("ci", "wrong")
			checkStep(t, newProber("").Query(t.Context(), newHop("http", reg.Addr()), []regcred.Credential{wrong}), step,
				`provider "good", user "ci"`, "HTTP 401", "is wrong, has expired", "correct the user name and password")

			r := newProber("").Query(t.Context(), newHop("http", reg.Addr()), []regcred.Credential{wrong, goodCredentials()[0], wrong})
			checkStep(t, r, "", "not tried")
			if r.Accepted != 1 {
				t.Errorf("accepted %d, want 1", r.Accepted)
			}
			if got := formatSteps(r); strings.Count(got, "warning "+step) != 1 {
				t.Error("there is no warning about the rejected first one")
			}
			checkStep(t, newProber("").Query(t.Context(), newHop("http", reg.Addr()), nil), probe.StepManifest, "anonymous", "401", "no credential was found")

			h := newHop("http", reg.Addr())
			h.Repository = "team/gone"
			checkStep(t, newProber("").Query(t.Context(), h, goodCredentials()), probe.StepManifest, "HTTP 404", "check the name and the tag")

			h = newHop("http", reg.Addr())
			h.Credential = route.CredentialNone
			checkStep(t, newProber("").Query(t.Context(), h, goodCredentials()), probe.StepManifest, "anonymous")
		})
	}
}

// TestFaults verifies the errors for broken registries and for servers that are not
// registries.
func TestFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		step    string
		says    []string
	}{
		"page": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<html>welcome")
		}, probe.StepChallenge, []string{"is not a registry", "a web page"}},
		"nothing": {http.NotFound, probe.StepChallenge, []string{"is not a registry: it returned HTTP 404 for /v2/"}},
		"login page": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/login" {
				http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.Path), http.StatusFound)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}, probe.StepChallenge, []string{"is not a registry", "reached through a redirect to"}},
		"busy": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		}, probe.StepChallenge, []string{"HTTP 429", "retry after 2m"}},
		"down": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) }, probe.StepChallenge, []string{"HTTP 502 Bad Gateway"}},
		"scheme": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", "Negotiate")
			w.WriteHeader(http.StatusUnauthorized)
		}, probe.StepChallenge, []string{`the authentication scheme "Negotiate"`}},
		"no challenge": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, probe.StepChallenge, []string{"HTTP 401 without an authentication challenge"}},
		"metadata realm": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://169.254.169.254/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, probe.StepChallenge, []string{"metadata server"}},
		"metadata redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		}, probe.StepChallenge, []string{"refused"}},
		"circle": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, probe.StepChallenge, []string{"redirects"}},
		"control": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", "Evil\x1b[2J")
			w.WriteHeader(http.StatusUnauthorized)
		}, probe.StepChallenge, nil},
		"endless headers": {func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, probe.StepChallenge, nil},
		"slow":            {func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, probe.StepChallenge, []string{"no response within 300ms"}},
		"slow token": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/token" {
				w.Header().Set("Content-Type", "application/json")
				for r.Context().Err() == nil {
					io.WriteString(w, " ")
					http.NewResponseController(w).Flush()
					time.Sleep(time.Millisecond)
				}
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, probe.StepToken, []string{"no response within 300ms"}},
		"scope": {func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/token": // {"access":[{"type":"repository","name":"team/other","actions":["pull"]}]}
				io.WriteString(w, `{"access_token":"e30.eyJhY2Nlc3MiOlt7InR5cGUiOiJyZXBvc2l0b3J5IiwibmFtZSI6InRlYW0vb3RoZXIiLCJhY3Rpb25zIjpbInB1bGwiXX1dfQ.e30"}`)
			default:
				w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="x",error="insufficient_scope"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
		}, probe.StepManifest, []string{"HTTP 401"}},
		"head": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusForbidden)
			}
		}, probe.StepManifest, []string{"HEAD returned HTTP 403, but GET returned 200"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newProber("").Query(t.Context(), newHop("http", startServer(t, tt.handler, nil)), goodCredentials())
			checkStep(t, r, tt.step, tt.says...)
			if strings.Contains(formatSteps(r), "\x1b") {
				t.Error("a control character is not escaped")
			}
			if name == "scope" && !strings.Contains(formatSteps(r), "does not grant access to this image: it grants repository:team/other:pull") {
				t.Error("the token's scope is not reported")
			}
		})
	}
}

// TestPlainRealm verifies that no password is sent to a token server without TLS if the
// registry uses TLS.
func TestPlainRealm(t *testing.T) {
	ca := newTestCA(t, "Our CA", nil)
	reg := newRegistry(t, testregistry.AuthBearer)
	addr := startServer(t, reg, &tls.Config{Certificates: []tls.Certificate{ca.issueServerCert(t, nil)}})
	checkStep(t, newProber(ca.writeCAFile(t)).Query(t.Context(), newHop("https", addr), goodCredentials()), probe.StepChallenge, "plain HTTP", "/token")
	for _, req := range reg.Requests() {
		if req.Path == "/token" && req.User != "" {
			t.Error("the password went over plain HTTP")
		}
	}
}

// TestTokenServer verifies that the error for an unreachable token server has the token
// server's name and the failed step.
func TestTokenServer(t *testing.T) {
	closed := testenv.FreeAddr(t)
	addr := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, closed))
		w.WriteHeader(http.StatusUnauthorized)
	}), nil)
	checkStep(t, newProber("").Query(t.Context(), newHop("http", addr), goodCredentials()), probe.StepTCP, "token server "+closed+": ", "refused the connection")
}

// TestPlatform verifies the error for an index that lacks the node's platform.
func TestPlatform(t *testing.T) {
	index := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"platform":{"os":"linux","architecture":"s390x"}}]}`
	addr := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		io.WriteString(w, index)
	}), nil)
	p := newProber("")
	p.Platform = "linux/amd64"
	checkStep(t, p.Query(t.Context(), newHop("http", addr), nil), probe.StepManifest, "it has no image for linux/amd64, only for linux/s390x")
	p.Platform = "linux/s390x"
	checkStep(t, p.Query(t.Context(), newHop("http", addr), nil), "", "for linux/s390x")
}

// TestMirror verifies the URL of requests to a mirror with a path prefix.
func TestMirror(t *testing.T) {
	reg := newRegistry(t, testregistry.AuthBasic)
	var asked []string
	addr := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		r.URL.Path = strings.Replace(r.URL.Path, "/v2/cache/", "/v2/", 1)
		reg.ServeHTTP(w, r)
	}), nil)
	h := newHop("http", addr)
	h.IsOrigin, h.Base = false, &url.URL{Scheme: "http", Host: addr, Path: "/v2/cache"}
	checkStep(t, newProber("").Query(t.Context(), h, goodCredentials()), "", "accepted")
	for _, u := range asked {
		if u != "/v2/cache/team/app/manifests/v1?ns=registry.example" {
			t.Errorf("asked for %s", u)
		}
	}
}

// TestBounded verifies that a query ends when its context is canceled.
func TestBounded(t *testing.T) {
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { silent.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := newProber("")
	p.StepTimeout = time.Hour
	if r := p.Query(ctx, newHop("https", silent.Addr().String()), goodCredentials()); r.FailedStep() == nil {
		t.Error("it does not fail")
	}
}
