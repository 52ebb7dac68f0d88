// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe_test

import (
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/probe"
)

// TestRuntimeRules verifies that the outcome is the runtime's, at registries where the runtimes differ.
func TestRuntimeRules(t *testing.T) {
	const basic, bearer = `Basic realm="x"`, `Bearer realm="http://HOST/token",service="s"`
	for name, tt := range map[string]struct {
		challenges []string
		ping       int    // status of /v2/; 0 means as for manifests
		token      string // response of the token server
		status     int    // of the token server; 0 means 200
		accepts    string // prefix of an accepted Authorization
		creds      []regcred.Credential
		containerd string // step that fails, or ""
		crio       string
		says       string // for containerd, or for CRI-O if containerd pulls
	}{
		"Basic before Bearer":      {[]string{basic, bearer}, 0, `{"access_token":"t","token":"t"}`, 0, "Bearer t", goodCredentials(), "", probe.StepManifest, "HTTP 401"},
		"Bearer before Basic":      {[]string{bearer, basic}, 0, `{"access_token":"t","token":"t"}`, 0, "Bearer t", goodCredentials(), "", "", ""},
		"Negotiate, Digest, Basic": {[]string{"Negotiate", `Digest realm="x"`, basic}, 0, "", 0, "Basic", goodCredentials(), "", "", ""},
		"token with status 201":    {[]string{bearer}, 0, `{"access_token":"t"}`, 201, "Bearer t", goodCredentials(), "", probe.StepToken, "HTTP 201"},
		"issued_at":                {[]string{bearer}, 0, `{"access_token":"t","issued_at":"2026-11-25 10:00:00"}`, 0, "Bearer t", goodCredentials(), probe.StepToken, probe.StepToken, "issued_at is not a time in RFC 3339 format"},
		"float":                    {[]string{bearer}, 0, `{"access_token":"t","expires_in":300.5}`, 0, "Bearer t", goodCredentials(), probe.StepToken, probe.StepToken, "correct the token server's response: containerd cannot decode it"},
		"/v2/ 404":                 {[]string{basic}, 404, "", 0, "Basic", goodCredentials(), "", probe.StepChallenge, "HTTP 404"},
		"/v2/ 403":                 {[]string{bearer}, 403, `{"access_token":"t"}`, 0, "Bearer t", goodCredentials(), "", probe.StepChallenge, "HTTP 403"},
		"/v2/ open":                {[]string{basic}, 200, "", 0, "Basic", goodCredentials(), "", probe.StepManifest, "HTTP 401"},
		"no user name, public":     {[]string{bearer}, 0, `{"access_token":"t","token":"t"}`, 0, "Bearer t", []regcred.Credential{newCredential("", canary.PasswordSecret)}, "", "", ""},
		"no password, public":      {[]string{bearer}, 0, `{"access_token":"t","token":"t"}`, 0, "Bearer t", []regcred.Credential{newCredential("u", "")}, "", "", ""},
		"no user name, Basic":      {[]string{basic}, 0, "", 0, "Basic", []regcred.Credential{newCredential("", canary.PasswordSecret)}, probe.StepToken, probe.StepToken, "no user name or no password"},
		"no password, Basic":       {[]string{basic}, 0, "", 0, "Basic", []regcred.Credential{newCredential("u", "")}, probe.StepToken, "", "no user name or no password"},
	} {
		t.Run(name, func(t *testing.T) {
			for runtime, step := range map[string]string{"containerd": tt.containerd, "CRI-O": tt.crio} {
				addr := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch auth := r.Header.Get("Authorization"); {
					case r.URL.Path == "/token":
						w.WriteHeader(max(tt.status, 200))
						io.WriteString(w, tt.token)
					case r.URL.Path == "/v2/" && tt.ping != 0:
						w.WriteHeader(tt.ping)
						io.WriteString(w, `{"errors":[{"code":"UNKNOWN"}]}`)
					case auth != "" && strings.HasPrefix(auth, tt.accepts):
						io.WriteString(w, `{"schemaVersion":2}`)
					default:
						for _, c := range tt.challenges {
							w.Header().Add("WWW-Authenticate", strings.ReplaceAll(c, "HOST", r.Host))
						}
						w.WriteHeader(http.StatusUnauthorized)
					}
				}), nil)
				p := newProber("")
				p.Runtime.Name = runtime
				says := []string{tt.says}
				if step == "" || tt.containerd != "" && runtime == "CRI-O" {
					says = nil
				}
				checkStep(t, p.Query(t.Context(), newHop("http", addr), tt.creds), step, says...)
			}
		})
	}
}

// TestDigest verifies that the content which a host returns for a digest is compared with the digest.
func TestDigest(t *testing.T) {
	const image, other = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}`, `{"schemaVersion":2,"manifests":[]}`
	sha := func(s string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(s))) }
	for name, tt := range map[string]struct {
		digest, header, body, mediaType string
		mirror, fails                   bool
	}{
		"same":                    {sha(image), sha(image), image, "", false, false},
		"same, no header":         {sha(image), "", image, "", false, false},
		"same, wrong header":      {sha(image), sha(other), image, "", false, false}, // runtimes compare only the content
		"other":                   {sha(image), sha(other), other, "", false, true},
		"other, no header":        {sha(image), "", other, "", false, true},
		"other, the right header": {sha(image), sha(image), other, "", false, true},
		"other index":             {sha(image), sha(other), other, "application/vnd.oci.image.index.v1+json", false, true},
		"other at a mirror":       {sha(image), sha(image), other, "", true, true},
		"sha512":                  {fmt.Sprintf("sha512:%x", sha512.Sum512([]byte(image))), "", image, "", false, false},
		"other sha512":            {fmt.Sprintf("sha512:%x", sha512.Sum512([]byte(image))), sha(other), other, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			addr := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
				if tt.mediaType != "" {
					w.Header().Set("Content-Type", tt.mediaType)
				}
				if tt.header != "" {
					w.Header().Set("Docker-Content-Digest", tt.header)
				}
				if !strings.HasSuffix(r.URL.Path, "/manifests/"+tt.digest) {
					w.WriteHeader(http.StatusNotFound)
				}
				io.WriteString(w, tt.body)
			}), nil)
			p := newProber("")
			p.Image.Tag, p.Image.Digest = "v1", tt.digest
			hop := newHop("http", addr)
			hop.IsOrigin = !tt.mirror
			if tt.fails {
				checkStep(t, p.Query(t.Context(), hop, nil), probe.StepManifest, "was requested, but the content", "serves another image")
			} else {
				checkStep(t, p.Query(t.Context(), hop, nil), "")
			}
		})
	}
}
