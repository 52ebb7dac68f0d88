// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// TestChallenge verifies which challenge each runtime chooses.
func TestChallenge(t *testing.T) {
	for _, tt := range []struct {
		lines                       []string
		containerd, containersImage string
	}{
		{[]string{`Basic realm="x"`, `Bearer realm="y"`}, "bearer map[realm:y]", "basic map[realm:x]"},
		{[]string{`Bearer realm="y"`, `Basic realm="x"`}, "bearer map[realm:y]", "bearer map[realm:y]"},
		{[]string{`Negotiate`, `Digest realm="d"`, `BASIC realm=x`}, "basic map[realm:x]", "basic map[realm:x]"},
		{[]string{`Basic realm="a"`, `Basic realm="b"`}, "basic map[realm:a]", "basic map[realm:a]"},
		{[]string{`bEaReR Realm="a\"b", SERVICE=s , scope="c d"`}, `bearer map[realm:a"b scope:c d service:s]`, `bearer map[realm:a"b scope:c d service:s]`},
		{[]string{`Bearer realm="y",service="",scope="s"`}, "bearer map[realm:y scope:s service:]", "bearer map[realm:y]"},
		{[]string{`Basic realm="x", Bearer realm="y"`}, "basic map[realm:x]", "basic map[realm:x]"}, // only the first in a line
		{[]string{`Bearer realm="unterminated`}, "bearer map[realm:]", "bearer map[]"},
		{[]string{`Bearer`}, "bearer map[]", "bearer map[]"},
		{[]string{``, ` Basic realm="x"`, `Negotiate`}, "none", "none"},
		{nil, "none", "none"},
	} {
		header := http.Header{"Www-Authenticate": tt.lines}
		for rt, want := range map[Runtime]string{Containerd: tt.containerd, ContainersImage: tt.containersImage, GoContainerregistry: tt.containerd} {
			got := "none"
			if c := rt.chooseChallenge(header); c != nil {
				got = fmt.Sprint(c.Scheme, " ", c.Parameters)
			}
			if got != want {
				t.Errorf("%q, runtime %d: got %s, want %s", tt.lines, rt, got, want)
			}
		}
	}
}

// TestTokenResponses verifies which responses each runtime accepts.
func TestTokenResponses(t *testing.T) {
	for _, tt := range []struct {
		method, body                                     string
		containerd, containersImage, goContainerregistry string // the token, or a part of the error
	}{
		{"GET", `{"token":"a"}`, "a", "a", "a"},
		{"GET", `{"token":"a","access_token":"b"}`, "b", "a", "b"},
		{"POST", `{"access_token":"b"} more`, "b", "invalid character 'm'", "b"},
		{"POST", `{"token":"a"}`, "contains no token", "a", "a"},
		{"GET", `{"token":"a","issued_at":"2026-11-25 10:00:00"}`, "issued_at is not a time", "issued_at is not a time", "a"},
		{"GET", `{"token":"a","issued_at":null,"expires_in":-5}`, "a", "a", "a"},
		{"GET", `{"token":"a","expires_in":300.5}`, "expires_in is a JSON number 300.5, want int", "expires_in is a JSON number 300.5, want int", "a"},
		{"GET", `{"token":"a","expires_in":"300"}`, "expires_in is a JSON string, want int", "expires_in is a JSON string, want int", "a"},
		{"GET", `{"token":"a","refresh_token":1}`, "refresh_token is a JSON number, want string", "a", "a"},
		{"POST", `{"access_token":"b","token":1}`, "b", "token is a JSON number, want string", "token is a JSON number, want string"},
		{"GET", `[]`, "the response is a JSON array", "the response is a JSON array", "the response is a JSON array"},
		{"GET", `<html>`, "invalid character '<'", "invalid character '<'", "invalid character '<'"},
		{"GET", ``, "EOF", "unexpected end", "EOF"},
	} {
		for rt, want := range map[Runtime]string{Containerd: tt.containerd, ContainersImage: tt.containersImage, GoContainerregistry: tt.goContainerregistry} {
			got, err := rt.decodeToken(tt.method, []byte(tt.body))
			if err != nil && !errors.Is(err, ErrBadToken) {
				t.Errorf("%s: %v does not match ErrBadToken", tt.body, err)
			}
			if err == nil && got.value != want || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s to %s, runtime %d: got %q, %v; want %q", tt.body, tt.method, rt, got.value, err, want)
			}
		}
	}
}

// TestIncompleteCredentials verifies what each runtime sends of a credential without a user name or a password.
func TestIncompleteCredentials(t *testing.T) {
	const refused, pulls = "401", "200"
	const incomplete = "incomplete"
	for _, tt := range []struct {
		user, password string
		auth           testregistry.Auth
		public         bool // everyone may pull, with a token
		containerd     string
		others         string
	}{
		{"", "", testregistry.AuthNone, false, pulls, pulls},
		{"", canary.PasswordSecret, testregistry.AuthNone, false, pulls, pulls},
		{"", "", testregistry.AuthBearer, true, pulls, pulls},
		{"", canary.PasswordSecret, testregistry.AuthBearer, true, pulls, pulls},
		{"", canary.PasswordSecret, testregistry.AuthBearer, false, refused, refused},
		{"u", "", testregistry.AuthBearer, true, pulls, pulls},
		{"u", "", testregistry.AuthBearer, false, refused, refused},
		{"", canary.PasswordSecret, testregistry.AuthBasic, false, incomplete, incomplete},
		{"", "", testregistry.AuthBasic, false, incomplete, incomplete},
		{"u", "", testregistry.AuthBasic, false, incomplete, pulls},
	} {
		for _, rt := range []Runtime{Containerd, ContainersImage, GoContainerregistry} {
			var sent []string
			f, r := startRegistry(t, tt.auth, false, func(w http.ResponseWriter, r *http.Request) bool {
				user, _, ok := r.BasicAuth()
				if ok || r.FormValue("username") != "" || r.FormValue("password") != "" {
					sent = append(sent, user)
				}
				public := tt.public && strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ")
				if public || ok && user == "u" {
					io.WriteString(w, "{}")
				}
				return public || ok && user == "u"
			})
			r.Runtime = rt
			want := tt.others
			if rt == Containerd {
				want = tt.containerd
			}
			s, err := r.Login(t.Context(), newCredential(tt.user, tt.password))
			var got string
			if err == nil {
				req := must.Get(http.NewRequest("GET", f.URL+"/v2/team/app/manifests/v1", nil))(t)
				var resp *http.Response
				if resp, err = s.RoundTrip(req); err == nil {
					got = fmt.Sprint(resp.StatusCode)
					resp.Body.Close()
				}
			}
			if errors.Is(err, ErrIncompleteCredential) {
				got, err = incomplete, nil
			}
			if got != want || err != nil {
				t.Errorf("%+v, runtime %d: got %s, %v; want %s", tt, rt, got, err, want)
			}
			if slices.Contains(sent, "") || len(sent) > 0 && want != pulls {
				t.Errorf("%+v, runtime %d: a password was sent for the users %q", tt, rt, sent)
			}
		}
	}
}

// TestPingStatus verifies that a registry whose /v2/ is not available is used nevertheless, except by containers/image.
func TestPingStatus(t *testing.T) {
	for _, auth := range []testregistry.Auth{testregistry.AuthNone, testregistry.AuthBasic, testregistry.AuthBearer} {
		for _, status := range []int{200, 302, 403, 404, 405, 500} {
			for _, rt := range []Runtime{Containerd, ContainersImage, GoContainerregistry} {
				f, r := startRegistry(t, auth, false, func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == "/v2/" {
						w.Header().Set("Location", "/login.html")
						w.WriteHeader(status)
					}
					return r.URL.Path == "/v2/"
				})
				r.Runtime = rt
				s, err := r.Login(t.Context(), newCredential("good", canary.PasswordSecret))
				if rt == ContainersImage && status != 200 {
					if StatusCode(err) != status {
						t.Errorf("status %d, containers/image: got %v", status, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("status %d, runtime %d: %v", status, rt, err)
					continue
				}
				want := http.StatusOK
				if rt == ContainersImage && auth != testregistry.AuthNone {
					want = http.StatusUnauthorized // it takes challenges only from /v2/
				}
				if resp := httpGet(t, s, f.URL+"/v2/team/app/manifests/v1"); resp.StatusCode != want {
					t.Errorf("status %d of /v2/, runtime %d: the manifest has status %d, want %d", status, rt, resp.StatusCode, want)
				}
			}
		}
	}
}

// TestTokenRedirect verifies that no password follows a redirect of a token server to another host or port.
func TestTokenRedirect(t *testing.T) {
	for _, status := range []int{302, 307} {
		for _, rt := range []Runtime{Containerd, GoContainerregistry} {
			var seen []string
			other, _ := startRegistry(t, testregistry.AuthNone, false, func(w http.ResponseWriter, r *http.Request) bool {
				if _, _, ok := r.BasicAuth(); ok || r.PostFormValue("password") != "" {
					seen = append(seen, r.Method)
				}
				io.WriteString(w, `{"access_token":"anonymous"}`)
				return true
			})
			_, r := startRegistry(t, testregistry.AuthBearer, false, func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/token" {
					http.Redirect(w, r, other.URL+"/token", status)
				}
				return r.URL.Path == "/token"
			})
			r.Runtime = rt
			_, err := r.Login(t.Context(), newCredential("good", canary.PasswordSecret))
			if wantError := status == 307 && rt == Containerd; (err != nil) != wantError {
				t.Errorf("status %d, runtime %d: got %v", status, rt, err)
			}
			if len(seen) > 0 {
				t.Errorf("status %d, runtime %d: the password was sent on by %v", status, rt, seen)
			}
		}
	}
}

// TestRefusedOnce verifies that a rejected password is sent only once for each request.
func TestRefusedOnce(t *testing.T) {
	for _, lines := range [][]string{{`Basic realm="x"`}, {`Basic realm="x"`, `Bearer realm="TOKEN"`}} {
		sent := map[string]int{}
		f, r := startRegistry(t, testregistry.AuthNone, false, func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" {
				sent["token"]++
				io.WriteString(w, `{"access_token":"t"}`)
				return true
			}
			if v := r.Header.Get("Authorization"); v != "" {
				sent[v]++
			}
			for _, line := range lines {
				w.Header().Add("WWW-Authenticate", strings.ReplaceAll(line, "TOKEN", "http://"+r.Host+"/token"))
			}
			w.WriteHeader(http.StatusUnauthorized)
			return true
		})
		s := must.Get(r.Login(t.Context(), &regcred.Credential{Username: "u", Password: newCredential("", "p").Password}))(t)
		if resp := httpGet(t, s, f.URL+"/v2/team/app/manifests/v1"); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: status %d", lines, resp.StatusCode)
		}
		for what, n := range sent {
			if n > 2 || strings.HasPrefix(what, "Basic") && n > 1 {
				t.Errorf("%q: %s was sent %d times", lines, what, n)
			}
		}
	}
}

// TestPrivateRealm verifies that a token server at a private address gets the password. For registries on loopback, this
// includes loopback addresses. Metadata servers get no request.
func TestPrivateRealm(t *testing.T) {
	for _, tt := range []struct {
		registry, realm string
		refused         bool
	}{
		{"10.0.0.5:5050", "https://10.0.0.5/jwt/auth", false},
		{"10.0.0.5:443", "https://10.0.0.5/service/token", false},
		{"registry.example", "https://192.168.1.5:8443/token", false},
		{"registry.example", "https://[fd00::1]:5001/token", false},
		{"[fd00::1]:5000", "https://[fd00::1]/token", false},
		{"127.0.0.1:5000", "http://127.0.0.1:5001/token", false},
		{"localhost:5000", "http://[::1]:5001/token", false},
		{"registry.example", "https://127.0.0.1/token", true},
		{"registry.example", "https://169.254.169.254/token", true},
		{"10.0.0.5:5050", "https://169.254.169.254/token", true},
		{"registry.example", "https://[fd00:ec2::254]/token", true},
	} {
		registry := must.Get(name.NewRegistry(tt.registry))(t)
		tokens := 0
		r := &Registry{Target: must.Get(NewTarget(registry, "s", false))(t), Secrets: &Secrets{}, Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: 401, Header: http.Header{"Www-Authenticate": {fmt.Sprintf("Bearer realm=%q", tt.realm)}}, Body: http.NoBody, Request: req}
			if req.URL.Path != "/v2/" {
				tokens++
				resp.StatusCode, resp.Body = 200, io.NopCloser(strings.NewReader(`{"access_token":"t"}`))
			}
			return resp, nil
		})}
		_, err := r.Login(t.Context(), newCredential("u", "p"))
		if (err != nil) != tt.refused || tokens > 0 == tt.refused {
			t.Errorf("%s, realm %s: %d requests, %v", tt.registry, tt.realm, tokens, err)
		}
	}
}
