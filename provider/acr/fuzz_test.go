// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// FuzzManagedIdentity has the endpoints of managed identities say anything.
// Their answers go through the SDK: whatever they are, there is an answer or
// an error of one line without a secret.
func FuzzManagedIdentity(f *testing.F) {
	az := testcloud.NewAzure()
	f.Cleanup(az.Close)
	for _, entry := range az.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		f.Setenv(name, value)
	}
	config := filepath.Join(f.TempDir(), "azure.json")
	if err := os.WriteFile(config, []byte(managed), 0o600); err != nil {
		f.Fatal(err)
	}
	p, err := New(Options{ConfigFile: config, Timeout: 5 * time.Second, Budget: 20 * time.Second, Backoff: time.Microsecond})
	if err != nil {
		f.Fatal(err)
	}
	for _, body := range []string{
		`{"access_token":"a","expires_in":"86399","expires_on":"4102444800"}`, `{"access_token":"a","expires_on":1e300,"expires_in":-1}`,
		`{"access_token":"a","expires_in":"x","refresh_in":null}`, `{"access_token":{}}`, `{"expires_on":"01/02/2030 00:00:00 +00:00"}`,
		`null`, `[]`, ``, `"`, `{"error":{"code":1}}`,
	} {
		for kind := range uint8(3) {
			f.Add(kind, uint16(200), body, "")
			f.Add(kind, uint16(400), body, "")
		}
	}
	f.Add(uint8(2), uint16(401), "", `Basic realm=`)
	f.Add(uint8(2), uint16(401), "", `Basic`)
	f.Add(uint8(2), uint16(401), "", `Basic realm=../../etc/passwd`)
	f.Fuzz(func(t *testing.T, kind uint8, status uint16, body, challenge string) {
		az.Reset()
		az.Inject(testcloud.Fault{Status: legalStatus(status), Times: -1, Body: body, Header: http.Header{"Www-Authenticate": {challenge}}})
		for name, value := range kindOfIdentity(az, kind) {
			os.Setenv(name, value) // undone after all
		}
		s := p.newSession(image("foo.azurecr.io/app"))
		defer s.close()
		token, err := s.managedToken(t.Context(), "")
		if (token == "") != (err != nil) || err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("a token of %d bytes, error %q", len(token), err)
		}
	})
}

func legalStatus(n uint16) int { return 200 + (int(n)+200)%400 } // itself from 200 to 599

// kindOfIdentity is the environment of a virtual machine, App Service or Arc.
func kindOfIdentity(az *testcloud.Azure, kind uint8) map[string]string {
	environ := map[string]string{"IDENTITY_ENDPOINT": "", "IDENTITY_HEADER": "", "IMDS_ENDPOINT": ""}
	switch kind % 3 {
	case 1:
		environ["IDENTITY_ENDPOINT"], environ["IDENTITY_HEADER"] = az.URL()+"/appservice/token", canary.Token
	case 2:
		environ["IDENTITY_ENDPOINT"], environ["IMDS_ENDPOINT"] = az.URL()+"/arc/token", az.URL()
	}
	return environ
}

// FuzzCertificate has Microsoft Entra ID say anything to a node that signs with
// a certificate: first where its endpoints are, then whether the node may have
// a token. These too go through the SDK.
func FuzzCertificate(f *testing.F) {
	az := testcloud.NewAzure()
	f.Cleanup(az.Close)
	net, err := testcloud.NewNet()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(net.Close)
	az.Join(net)
	dir := f.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			f.Fatal(err)
		}
		return path
	}
	config := write("azure.json", []byte(`{"tenantId":"t","aadClientId":"c","aadClientCertPath":"`+write("cert.pem", selfSigned(f))+`"}`))
	transport := net.Transport()
	f.Cleanup(transport.CloseIdleConnections)
	p, err := New(Options{ConfigFile: config, Transport: transport, Timeout: 5 * time.Second, Budget: 20 * time.Second, Backoff: time.Microsecond})
	if err != nil {
		f.Fatal(err)
	}
	const base = "https://login.microsoftonline.com/t"
	for _, body := range []string{
		`{"access_token":"a","expires_in":3599,"token_type":"Bearer"}`, `{"access_token":"a","expires_in":"x","id_token":"a.b.c","client_info":"e30"}`,
		`{"issuer":"` + base + `/v2.0","authorization_endpoint":"` + base + `/a","token_endpoint":"` + base + `/oauth2/v2.0/token"}`,
		`{"issuer":"https://evil.example","authorization_endpoint":"x","token_endpoint":"y"}`, `null`, `[]`, ``, `{"error":{"code":1}}`,
	} {
		for _, first := range []bool{true, false} {
			f.Add(first, uint16(200), body)
			f.Add(first, uint16(400), body)
		}
	}
	f.Fuzz(func(t *testing.T, first bool, status uint16, body string) {
		az.Reset()
		path := "/oauth2/v2.0/token"
		if first {
			path = "/.well-known/"
		}
		az.Inject(testcloud.Fault{Path: path, Status: legalStatus(status), Times: -1, Body: body})
		s := p.newSession(image("foo.azurecr.io/app"))
		defer s.close()
		who, err := s.node()
		if err != nil {
			t.Fatal(err)
		}
		token, err := who.token(t.Context())
		if (token == "") != (err != nil) || err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("a token of %d bytes, error %q", len(token), err)
		}
	})
}

// selfSigned is a certificate and its key, in PEM.
func selfSigned(f *testing.F) []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		f.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		f.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		f.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
}

// FuzzHosts compares the rule with the pattern that it stands for.
func FuzzHosts(f *testing.F) {
	pattern := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)?(\.[a-z0-9]+\.geo)?\.azurecr\.(io|cn|de|us)(:[0-9]+)?$`)
	for _, seed := range []string{
		"foo.azurecr.io/x", "foo-1.eastus.geo.azurecr.us:443/x", "evilazurecr.io/x", "foo.azurecr.io.example/x", "https://FOO.azurecr.io/x",
		"foo.azurecr.io@evil.example/x", "foo.azurecr.io:443:443/x", "[::1]:5000/x", "foo.azurecr.io\x00/x", "\u212Aoo.azurecr.io/x", "",
	} {
		f.Add(seed)
	}
	rules, err := newHostRules(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		host := (&plugin.Request{Image: name}).Registry()
		reg, ok := rules.find(host)
		if want := pattern.MatchString(strings.ToLower(host)); ok != want {
			t.Errorf("%q: got %v, want %v", host, ok, want)
		}
		if ok && (reg.key != host || !pattern.MatchString(reg.server) || strings.HasSuffix(reg.server, ":443")) {
			t.Errorf("%q: got %+v", host, reg)
		}
	})
}

// FuzzRealm: whatever URL a registry names, the token goes to a registry of
// the same name or to nobody.
func FuzzRealm(f *testing.F) {
	for _, seed := range []string{
		"https://foo.azurecr.io/oauth2/token", "https://foo.azurecr.io:443/", "https://foo.eastus.geo.azurecr.io/", "https://u@foo.azurecr.io/",
		"https://foo.azurecr.io.evil.example/", "https://evil.example#.azurecr.io", "//foo.azurecr.io/", "https://[::1]:443/", "HTTPS://FOO.AZURECR.IO",
	} {
		f.Add(seed)
	}
	rules, err := newHostRules(nil)
	if err != nil {
		f.Fatal(err)
	}
	reg, _ := rules.find("foo.azurecr.io")
	allowed := regexp.MustCompile(`^https://foo(\.[a-z0-9]+\.geo)?\.azurecr\.io/oauth2/exchange$`)
	f.Fuzz(func(t *testing.T, realm string) {
		if address, err := rules.exchangeURL(reg, realm); err == nil && !allowed.MatchString(address) {
			t.Errorf("%q: the token would go to %q", realm, address)
		}
	})
}

// FuzzMirrors: no list of mirrors makes it panic, and none covers an image
// that begins with its source by chance.
func FuzzMirrors(f *testing.F) {
	f.Add("mcr.microsoft.com:boot.azurecr.io,quay.io:5000=q.azurecr.io/x", "mcr.microsoft.com.evil/x")
	f.Add("a/b=c", "a/b:v1")
	f.Add("=,:,a=,=b", "")
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	f.Fuzz(func(t *testing.T, list, name string) {
		for _, m := range parseMirrors([]string{list}, log) {
			if m.source == "" || m.host == "" || strings.Contains(m.host, "/") {
				t.Errorf("%q: got %+v", list, m)
			}
			if rest, _ := strings.CutPrefix(name, m.source); m.covers(name) && rest != "" && !strings.ContainsAny(rest[:1], "/:@") {
				t.Errorf("%+v covers %q", m, name)
			}
		}
	})
}
