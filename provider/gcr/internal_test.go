// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// TestRefuseMetadata verifies that a docker config URL is rejected if its host name resolves to a
// metadata server.
func TestRefuseMetadata(t *testing.T) {
	for address, refused := range map[string]bool{
		"169.254.169.254:80": true, "[fe80::1%lo]:80": true, "[fd20:ce::254]:80": true, "[::ffff:169.254.169.254]:80": true, "nonsense": true,
		"127.0.0.1:80": false, "10.0.0.1:443": false, "[2001:db8::1]:443": false,
	} {
		if err := rejectMetadataServer("tcp", address, nil); errors.Is(err, errDockercfgURLForbidden) != refused {
			t.Errorf("%s: got %v", address, err)
		}
	}
	// The dialer calls rejectMetadataServer before it connects.
	dialer := net.Dialer{Control: rejectMetadataServer}
	if _, err := dialer.DialContext(t.Context(), "tcp", "[::ffff:169.254.169.254]:80"); !errors.Is(err, errDockercfgURLForbidden) {
		t.Error(err)
	}
}

// TestNewToken verifies that a token must be printable ASCII without spaces, because it is used in
// a header and as a password.
func TestNewToken(t *testing.T) {
	for value, ok := range map[string]bool{
		"!~": true, "": false, "a b": false, " a": false, "a\n": false, "a\x7f": false, "a\x00": false, "ä": false,
	} {
		token, err := newAccessToken(value, time.Minute)
		if ok != (err == nil) || ok && (token.value.Reveal() != value || token.lifetime != time.Minute) {
			t.Errorf("%q: got %v", value, err)
		}
	}
}

// TestDocumented verifies that the documentation quotes the error messages.
func TestDocumented(t *testing.T) {
	data := must.Get(os.ReadFile("../../docs/plugins/gcr.md"))(t)
	text := strings.ReplaceAll(string(data), "\n", " ")
	for _, message := range []string{
		hintNoMetadata, hintNoAccount, hintNoDockercfg, hintForbidden, hintNoSTS, hintExchange, hintImpersonation,
		errNoServiceAccount.Error(), errNotAnnotated.Error(), errNotGoogle.Error(), errNotJSON.Error(), errNoToken.Error(), errExpired.Error(),
		errDockercfgURLForbidden.Error(), errInvalidDockercfgURL.Error(), stepNodeToken, stepExchange, stepFetchDockercfg, EnvCacheDuration, EnvCacheType, EnvMetadataHost, EnvMetadataIP,
	} {
		if !strings.Contains(text, message) {
			t.Errorf("docs/plugins/gcr.md does not have %q", message)
		}
	}
}

// checkToken checks a parser's result: a valid token, or an error that does not quote text.
func checkToken(t *testing.T, text string, token accessToken, err error) {
	t.Helper()
	if err != nil {
		if err != errNotJSON && err != errNoToken && err != errExpired {
			t.Error("an error that is not the package's")
		}
		return
	}
	if d := token.cacheDuration(); token.value.IsZero() || !strings.Contains(text, token.value.Reveal()[:1]) && !strings.Contains(text, `\u`) || d < 0 || d > maxTokenLifetime/2 {
		t.Errorf("a token of %d bytes, to be kept for %v", len(token.value.Reveal()), d)
	}
	if !utf8.ValidString(token.value.Reveal()) {
		t.Error("the response cannot be encoded")
	}
}

// FuzzOAuth tests parsing of arbitrary responses of STS and the metadata server.
func FuzzOAuth(f *testing.F) {
	for _, seed := range []string{
		`{"access_token":"a","expires_in":3600,"token_type":"Bearer"}`, `{"access_token":"a","expires_in":-1}`,
		`{"access_token":"a","expires_in":1e400}`, `{"access_token":"\u0061","expires_in":"12"}`, `null`, `{"access_token":"a\n"}`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := parseOAuthToken([]byte(text))
		checkToken(t, text, token, err)
	})
}

func FuzzImpersonated(f *testing.F) {
	for _, seed := range []string{
		`{"accessToken":"a","expireTime":"2026-01-01T01:00:00Z"}`, `{"accessToken":"a","expireTime":"9999-12-31T23:59:59Z"}`,
		`{"accessToken":"a"}`, `{"expireTime":1}`, ``,
	} {
		f.Add(seed)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		token, err := parseImpersonatedToken([]byte(text), now)
		checkToken(t, text, token, err)
	})
}

// FuzzDockercfg tests arbitrary docker configs that contain a secret. An error must not contain the
// secret.
func FuzzDockercfg(f *testing.F) {
	var document string
	server := testcloud.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, document) }))
	defer server.Close()
	p := must.Get(New(Options{Flow: FlowDockercfg, MetadataHost: server.Addr(), Backoff: 1}))(f)
	for _, seed := range []string{`{"gcr.io":{"username":"u","password":"","email":"","auth":""}}`, `{"a":{"auth":"dTpw"}}`, `[]`, ``} {
		for at := range uint16(40) {
			f.Add(seed, at)
		}
	}
	f.Fuzz(func(t *testing.T, text string, at uint16) {
		server.Reset()
		i := min(int(at), len(text))
		document = text[:i] + canary.PasswordSecret + text[i:]
		resp, err := p.GetCredentials(t.Context(), &plugin.Request{Image: "gcr.io/p/app"})
		if err != nil {
			canary.AssertAbsent(t, "the error", err.Error())
			return
		}
		if resp.CacheKeyType != plugin.CacheImage || *resp.CacheDuration != 0 {
			t.Errorf("%s for %v", resp.CacheKeyType, *resp.CacheDuration)
		}
	})
}

// TestServiceHosts verifies which hosts belong to a Google service: its global, regional, private
// and mTLS hosts.
func TestServiceHosts(t *testing.T) {
	for _, host := range []string{"sts", "sts.mtls", "us-east4.sts", "sts.us-east4", "sts.us-east4.rep", "us-east4-sts", "us-east4-sts.mtls", "sts-mine.p", "STS"} {
		if err := checkServiceAddress("token_url", "https://"+host+".googleapis.com/v1/token", "sts", "googleapis.com"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, host := range []string{"storage", "iamcredentials", "stsx", "xsts.p", "a.s.t.s", "", "p", "mtls",
		"sts-evil.storage", "evil-sts.storage", "sts.evil.storage", "evil.sts.storage", "sts.storage", "sts.run", "us-east4.sts.storage", "sts-mine.p.storage", "sts.us-east4.storage", "sts.us-east4.p", "sts-evil", "sts-evil.storage.mtls"} {
		if checkServiceAddress("token_url", "https://"+host+".googleapis.com/v1/token", "sts", "googleapis.com") == nil {
			t.Errorf("%s: no error", host)
		}
	}
}
