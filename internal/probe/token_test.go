// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/probe"
)

// tokenServer starts a registry whose token server has a handler for each method. shown lists
// the methods of the requests that had the right password.
func tokenServer(t *testing.T, ways map[string]http.HandlerFunc) (addr string, shown *[]string) {
	t.Helper()
	shown = new([]string)
	return startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/token" {
			if r.Header.Get("Authorization") == "Bearer good" {
				io.WriteString(w, `{"schemaVersion":2}`)
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token?account=x",service="s",scope="repository:team/app:pull"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		user, password, _ := r.BasicAuth()
		service, scope := r.FormValue("service"), r.FormValue("scope")
		if r.Method == http.MethodPost && r.PostFormValue("grant_type") == "password" {
			user, password = r.PostFormValue("username"), r.PostFormValue("password")
			service, scope = r.PostForm.Get("service"), r.PostForm.Get("scope")
		}
		if user == "ci" && password == canary.PasswordSecret && service == "s" && scope == "repository:team/app:pull" && r.URL.Query().Get("account") == "x" {
			*shown = append(*shown, r.Method)
		}
		ways[r.Method](w, r)
	}), nil), shown
}

func respondStatus(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) }
}

func respondToken(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(map[string]string{name: "good"})
	}
}

// TestTokenMethods verifies that the token server gets requests with the same methods as from
// the runtime. The step succeeds if one of them returns a token.
func TestTokenMethods(t *testing.T) {
	const post, get = http.MethodPost, http.MethodGet
	away := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}
	for name, tt := range map[string]struct {
		runtime string
		ways    map[string]http.HandlerFunc
		shown   []string
		step    string
		says    []string
	}{
		"both":                   {"containerd", map[string]http.HandlerFunc{post: respondToken("access_token")}, []string{post}, "", nil},
		"POST alone":             {"containerd", map[string]http.HandlerFunc{post: respondToken("access_token"), get: respondStatus(405)}, []string{post}, "", nil},
		"POST alone, no runtime": {"", map[string]http.HandlerFunc{post: respondToken("access_token"), get: respondStatus(404)}, []string{post}, "", nil},
		"GET alone, 400":         {"containerd", map[string]http.HandlerFunc{post: respondStatus(400), get: respondToken("token")}, []string{post, get}, "", nil},
		"GET alone, 401":         {"containerd", map[string]http.HandlerFunc{post: respondStatus(401), get: respondToken("token")}, []string{post, get}, "", nil},
		"GET alone, 404":         {"containerd", map[string]http.HandlerFunc{post: respondStatus(404), get: respondToken("token")}, []string{post, get}, "", nil},
		"GET alone, 405":         {"containerd", map[string]http.HandlerFunc{post: respondStatus(405), get: respondToken("access_token")}, []string{post, get}, "", nil},
		"redirects POST":         {"containerd", map[string]http.HandlerFunc{post: away, get: respondToken("token")}, []string{post, get}, "", nil},
		"CRI-O":                  {"CRI-O", map[string]http.HandlerFunc{get: respondToken("token")}, []string{get}, "", nil},
		"CRI-O, POST alone":      {"CRI-O", map[string]http.HandlerFunc{get: respondStatus(405)}, []string{get}, probe.StepToken, []string{"HTTP 405"}},
		"GET alone, 403":         {"containerd", map[string]http.HandlerFunc{post: respondStatus(403)}, []string{post}, probe.StepToken, []string{"HTTP 403", "this is the response to POST", "or 405"}},
		"refused":                {"containerd", map[string]http.HandlerFunc{post: respondStatus(401), get: respondStatus(401)}, []string{post, get}, probe.StepToken, []string{"HTTP 401", "correct the user name and password"}},
		"no access_token":        {"containerd", map[string]http.HandlerFunc{post: respondToken("token")}, []string{post}, probe.StepToken, []string{"without access_token"}},
	} {
		t.Run(name, func(t *testing.T) {
			addr, shown := tokenServer(t, tt.ways)
			p := newProber("")
			p.Runtime.Name = tt.runtime
			checkStep(t, p.Query(t.Context(), newHop("http", addr), goodCredentials()), tt.step, tt.says...)
			if !slices.Equal(*shown, tt.shown) {
				t.Errorf("the password was shown by %v, want %v", *shown, tt.shown)
			}
		})
	}
}

// TestNoToken verifies the error for each response without a token.
func TestNoToken(t *testing.T) {
	says := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, body)
		}
	}
	for name, tt := range map[string]struct {
		way  http.HandlerFunc
		says string
	}{
		"page":      {says("text/html; charset=utf-8", "<!DOCTYPE html>"), "with a web page (HTML)"},
		"page, too": {says("text/plain", " <html>"), "with a web page (HTML)"},
		"nothing":   {says("application/json", ""), "with nothing"},
		"text":      {says("text/plain", "ok"), "with something other than JSON"},
		"no token":  {says("application/json", `{"expires_in":300}`), "with JSON without a token"},
		"number":    {says("application/json", `{"token":1}`), "with JSON without a token"},
		"echo":      {says("application/json", canary.PasswordSecret), "with something other than JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, runtime := range []string{"containerd", "CRI-O"} {
				addr, _ := tokenServer(t, map[string]http.HandlerFunc{http.MethodPost: tt.way, http.MethodGet: tt.way})
				p := newProber("")
				p.Runtime.Name = runtime
				checkStep(t, p.Query(t.Context(), newHop("http", addr), goodCredentials()), probe.StepToken,
					fmt.Sprintf("the token server http://%s/token returns no token for ", addr), tt.says, "check that the realm in the registry's settings is the address of its token server")
			}
		})
	}
}

// TestNoManifest verifies that a response with status 200 must contain a manifest.
func TestNoManifest(t *testing.T) {
	const image, index = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
	for name, tt := range map[string]struct {
		kind, digest, body string
		get                int
		step, says         string
	}{
		"by HEAD alone":  {image, "sha256:1", "", 500, "", "v1 exists, sha256:1"}, // a GET would count as a pull
		"no digest":      {image, "", `{"schemaVersion":2}`, 200, "", "v1 exists"},
		"no digest, 500": {image, "", "", 500, probe.StepManifest, "HEAD returned HTTP 200, but GET returned HTTP 500"},
		"no kind":        {"text/plain", "sha256:1", "ok", 200, probe.StepManifest, "the response is not a manifest"},
		"broken index":   {index, "sha256:1", "[[[[", 200, probe.StepManifest, "the response is not a manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				if tt.digest != "" {
					w.Header().Set("Docker-Content-Digest", tt.digest)
				}
				if r.Method == http.MethodGet {
					w.WriteHeader(tt.get)
					io.WriteString(w, tt.body)
				}
			}), nil)
			p := newProber("")
			p.Platform = "linux/amd64"
			checkStep(t, p.Query(t.Context(), newHop("http", addr), nil), tt.step, tt.says)
		})
	}
}

// TestTokenRefused verifies that the error does not mention a wrong password if the token
// server issued a token that the registry rejects.
func TestTokenRefused(t *testing.T) {
	addr, _ := tokenServer(t, map[string]http.HandlerFunc{http.MethodPost: func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"access_token":"bad"}`)
	}})
	r := newProber("").Query(t.Context(), newHop("http", addr), goodCredentials())
	checkStep(t, r, probe.StepManifest, "HTTP 401, although the token server "+addr+" issued a token", "allow the user to pull team/app")
	if strings.Contains(formatSteps(r), "password is wrong") {
		t.Error("the password is blamed")
	}
}

// TestSlowTokenServer verifies the error for a token server that does not respond in time.
func TestSlowTokenServer(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	addr, _ := tokenServer(t, map[string]http.HandlerFunc{http.MethodPost: hang})
	p := newProber("")
	p.StepTimeout = 50 * time.Millisecond
	checkStep(t, p.Query(t.Context(), newHop("http", addr), goodCredentials()), probe.StepToken, "the token server "+addr+": no response within 50ms", "token server's log")
}

// TestRejectedCredentialFix verifies that the fix for a rejected credential depends on where
// the credential is from.
func TestRejectedCredentialFix(t *testing.T) {
	addr := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
		w.WriteHeader(http.StatusUnauthorized)
	}), nil)
	file := newCredential("ci", "wrong")
	file.Provider, file.Origin.File = "", "/var/lib/kubelet/config.json"
	robot := file
	robot.Username = "robot"
	for _, tt := range []struct {
		cred regcred.Credential
		says string
	}{{newCredential("ci", "wrong"), "the provider's source)"}, {file, "single-quote values that contain $"}, {robot, "starts with robot$"}} {
		checkStep(t, newProber("").Query(t.Context(), newHop("http", addr), []regcred.Credential{tt.cred}), probe.StepManifest, "HTTP 401", tt.says)
	}
}
