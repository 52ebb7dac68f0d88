// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"crypto/rsa"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// FuzzManagedIdentity tests arbitrary responses of the managed identity endpoints. Each must lead
// to a token or to a one-line error without a secret.
func FuzzManagedIdentity(f *testing.F) {
	az := testcloud.NewAzure()
	f.Cleanup(az.Close)
	dir := f.TempDir()
	file, key := filepath.Join(dir, "azure.json"), filepath.Join(dir, "a.key")
	for path, text := range map[string]string{file: managedIdentityConfig, key: canary.TokenSecret} {
		must.Do(f, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, body := range []string{
		`{"access_token":"a","expires_in":"86399","expires_on":"4102444800"}`, `{"access_token":"a","expires_on":1e300,"expires_in":-1}`,
		`{"access_token":"a\n"}`, `{"access_token":{}}`, `null`, `[]`, ``, `"`, `{"error":{"code":1}}`,
	} {
		for kind := range uint8(3) {
			f.Add(kind, uint16(200), body, "", "")
			f.Add(kind, uint16(400), body, "", "id-1")
		}
	}
	for _, challenge := range []string{`Basic realm=`, `Basic`, `Basic realm=../../etc/passwd`, `Basic realm=` + key, `Basic realm="` + key + `"`} {
		f.Add(uint8(2), uint16(401), "", challenge, "")
	}
	f.Fuzz(func(t *testing.T, kind uint8, status uint16, body, challenge, id string) {
		az.Reset()
		az.Inject(testcloud.Fault{Status: validStatus(status), Times: -1, Body: body, Header: http.Header{"Www-Authenticate": {challenge}}})
		environ := identityEnviron(az, kind)
		p, err := New(Options{
			ConfigFile: file, Getenv: func(name string) string { return environ[name] },
			Timeout: 5 * time.Second, Budget: 20 * time.Second, Backoff: time.Microsecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		p.arc = arcAgent{keyDir: dir}
		s := p.newSession(imageRequest("foo.azurecr.io/app"))
		defer s.close()
		token, err := s.managedToken(t.Context(), &config{UserAssignedIdentityID: id})
		if (token == "") != (err != nil) || err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("a token of %d bytes, error %q", len(token), err)
		}
		for _, r := range az.Requests() {
			if told := r.Header.Get("Authorization"); told != "" && told != "Basic "+canary.TokenSecret {
				t.Errorf("the agent got %d bytes", len(told))
			}
		}
	})
}

func validStatus(n uint16) int { return 200 + (int(n)+200)%400 } // keeps statuses from 200 to 599 unchanged

// identityEnviron returns the environment variables of a virtual machine, App Service or Azure Arc.
func identityEnviron(az *testcloud.Azure, kind uint8) map[string]string {
	environ := map[string]string{"AZURE_POD_IDENTITY_AUTHORITY_HOST": az.URL()}
	switch kind % 3 {
	case 1:
		environ["IDENTITY_ENDPOINT"], environ["IDENTITY_HEADER"] = az.URL()+"/appservice/token", canary.TokenSecret
	case 2:
		environ["IDENTITY_ENDPOINT"], environ["IMDS_ENDPOINT"] = az.URL()+"/arc/token", az.URL()
	}
	return environ
}

// FuzzCertificate verifies that any file leads to an error, or to a certificate and its matching
// key.
func FuzzCertificate(f *testing.F) {
	cert, key, _ := selfSigned(f)
	f.Add(concatBytes(cert, key))
	f.Add(concatBytes(key, cert, cert))
	f.Add(cert)
	f.Add([]byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\n-----END ENCRYPTED PRIVATE KEY-----\n"))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nDEK-Info: x\n\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cert, key, err := parseCertificate(data)
		if (cert == nil || key == nil) != (err != nil) || err == nil && !key.Public().(*rsa.PublicKey).Equal(cert.PublicKey) {
			t.Errorf("certificate %t, key %t, error %v", cert != nil, key != nil, err)
		}
	})
}

// FuzzHosts compares the hosts that are accepted with an equivalent regular expression.
func FuzzHosts(f *testing.F) {
	pattern := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)?(\.[a-z0-9]+\.geo)?\.azurecr\.(io|cn|de|us)(:[0-9]+)?$`)
	for _, seed := range []string{
		"foo.azurecr.io/x", "foo-1.eastus.geo.azurecr.us:443/x", "evilazurecr.io/x", "foo.azurecr.io.example/x", "https://FOO.azurecr.io/x",
		"foo.azurecr.io@evil.example/x", "foo.azurecr.io:443:443/x", "[::1]:5000/x", "foo.azurecr.io\x00/x", "\u212Aoo.azurecr.io/x", "",
	} {
		f.Add(seed)
	}
	rules := must.Get(newHostRules(nil))(f)
	f.Fuzz(func(t *testing.T, name string) {
		host := (&plugin.Request{Image: name}).Registry()
		reg, ok := rules.findRegistry(host)
		if want := pattern.MatchString(strings.ToLower(host)); ok != want {
			t.Errorf("%q: got %v, want %v", host, ok, want)
		}
		if ok && (reg.authKey != host || !pattern.MatchString(reg.server) || strings.HasSuffix(reg.server, ":443")) {
			t.Errorf("%q: got %+v", host, reg)
		}
	})
}

// FuzzRealm verifies that no realm in a challenge makes the provider send the token to another
// registry.
func FuzzRealm(f *testing.F) {
	for _, seed := range []string{
		"https://foo.azurecr.io/oauth2/token", "https://foo.azurecr.io:443/", "https://foo.eastus.geo.azurecr.io/", "https://u@foo.azurecr.io/",
		"https://foo.azurecr.io.evil.example/", "https://evil.example#.azurecr.io", "//foo.azurecr.io/", "https://[::1]:443/", "HTTPS://FOO.AZURECR.IO",
	} {
		f.Add(seed)
	}
	rules := must.Get(newHostRules(nil))(f)
	reg, _ := rules.findRegistry("foo.azurecr.io")
	allowed := regexp.MustCompile(`^https://foo(\.[a-z0-9]+\.geo)?\.azurecr\.io/oauth2/exchange$`)
	f.Fuzz(func(t *testing.T, realm string) {
		if address, err := rules.exchangeURL(reg, realm); err == nil && !allowed.MatchString(address) {
			t.Errorf("%q: the token would go to %q", realm, address)
		}
	})
}

// FuzzMirrors verifies that an arbitrary list of mirrors leads to a one-line error, or to mirrors
// whose sources and targets are valid hosts.
func FuzzMirrors(f *testing.F) {
	f.Add("mcr.microsoft.com:boot.azurecr.io,quay.io:5000=q.azurecr.io/x")
	f.Add("a.example/b=c.azurecr.io")
	f.Add("=,:,a=,=b")
	rules := must.Get(newHostRules(nil))(f)
	f.Fuzz(func(t *testing.T, list string) {
		all, err := parseMirrorOptions(Options{RegistryMirrors: []string{list}, MirrorOrigin: "trusted"}, rules)
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", list, err)
		}
		for _, rule := range all.Rules() {
			if host, _, _ := strings.Cut(rule.Source, "/"); host == "" || hostpattern.Validate(rule.Target) != nil {
				t.Errorf("%q: got %+v", list, rule)
			}
		}
	})
}
