// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// basicAuthUser returns the user name of a request with Basic authentication, or "".
func basicAuthUser(r interface{ BasicAuth() (string, string, bool) }) string {
	name, _, _ := r.BasicAuth()
	return name
}

// byUser responds to manifest requests with an error status that depends on the user. Users without
// a status get the registry's response.
func byUser(statuses map[string]int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		status := statuses[basicAuthUser(r)]
		if status == 0 || !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		w.Header().Set("Retry-After", "2")
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"errors":[{"code":"CODE%d","message":"said to %s"}]}`, status, basicAuthUser(r))
		return true
	}
}

// TestStatus verifies the response for combinations of two credentials' statuses, and whether the
// second credential is tried.
func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		other, good int // status of the response to each user; 0 means success
		want        int
		asked       int // number of requests by "good"
	}{
		{401, 0, 200, 1},
		{403, 0, 200, 1},
		{404, 0, 200, 1},
		{429, 0, 200, 1},
		{501, 0, 200, 1},
		{401, 403, 403, 1},
		{403, 401, 403, 1},
		{401, 404, 404, 1},
		{404, 401, 404, 1},
		{404, 403, 404, 1},
		{403, 404, 404, 1},
		{401, 401, 401, 1},
		{401, 501, 501, 1},
		{501, 404, 501, 1},
		{400, 0, 400, 0},
		{406, 0, 406, 0},
		{401, 400, 400, 1},
	} {
		t.Run(fmt.Sprintf("%d and %d", tt.other, tt.good), func(t *testing.T) {
			f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, byUser(map[string]int{"other": tt.other, "good": tt.good}))
			tr := mustTransport(t, New(newTwoUserKeyring(t, f.host()), Options{}), ref.Context())
			req, _ := http.NewRequestWithContext(t.Context(), "GET", f.URL+"/v2/team/app/manifests/v1", nil)
			resp := must.Get(tr.RoundTrip(req))(t)
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			canary.AssertAbsent(t, "the body", string(body))
			if resp.StatusCode != tt.want {
				t.Errorf("status %d, want %d: %s", resp.StatusCode, tt.want, body)
			}
			asked := 0
			for _, r := range f.recordedRequests("/manifests/") {
				if basicAuthUser(r) == "good" {
					asked++
				}
			}
			if tt.good < 429 && asked != tt.asked {
				t.Errorf("%d requests of the second, want %d", asked, tt.asked)
			}
			if tt.want < 400 {
				return
			}
			h := resp.Header
			if h.Get("Retry-After") != "2" || h.Get("Docker-Distribution-Api-Version") == "" || h.Get("Content-Type") != "application/json" || resp.ContentLength != int64(len(body)) {
				t.Errorf("header %v, length %d", h, resp.ContentLength)
			}
			for user, status := range map[string]int{"other": tt.other, "good": tt.good} {
				if status > 0 && !strings.Contains(string(body), "said to "+user) {
					t.Errorf("nothing of %s in %s", user, body)
				}
			}
		})
	}
}

// TestRejectedHead verifies that the response to a rejected HEAD request also has a
// message for each credential.
func TestRejectedHead(t *testing.T) {
	f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, byUser(map[string]int{"other": 401, "good": 403}))
	tr := mustTransport(t, New(newTwoUserKeyring(t, f.host()), Options{}), ref.Context())
	_, err := remote.Head(ref, remote.WithTransport(tr.Wrapper()))
	var terr *transport.Error
	if !errors.As(err, &terr) || terr.StatusCode != http.StatusForbidden {
		t.Fatalf("got %v", err)
	}
	req, _ := http.NewRequestWithContext(t.Context(), "HEAD", f.URL+"/v2/team/app/manifests/v1", nil)
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusForbidden {
		t.Fatalf("got %v, %v", resp, err)
	}
	if body, err := io.ReadAll(resp.Body); bytes.Count(body, []byte("provider")) != 2 || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
}

// TestQuota verifies that after a 429 the next credential is tried at once. If no other credential
// is left, the request is retried after Retry-After.
func TestQuota(t *testing.T) {
	f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, byUser(map[string]int{"other": 429}))
	if err := pullLayers(t.Context(), ref, mustTransport(t, New(newTwoUserKeyring(t, f.host()), Options{}), ref.Context()).Wrapper()); err != nil {
		t.Error(err)
	}
	asked := 0
	for _, r := range f.recordedRequests("/manifests/") {
		if basicAuthUser(r) == "other" {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("%d requests over the limit, want 1", asked)
	}

	left := 2
	f, ref = startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case !strings.Contains(r.URL.Path, "/manifests/"):
			return false
		case basicAuthUser(r) == "other":
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		left--
		if left >= 0 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return left >= 0
	})
	if err := pullLayers(t.Context(), ref, mustTransport(t, New(newTwoUserKeyring(t, f.host()), Options{}), ref.Context()).Wrapper()); err != nil {
		t.Error(err)
	}
}

// TestNoRetriesOnTop verifies that go-containerregistry does not retry requests in addition to the
// Transport.
func TestNoRetriesOnTop(t *testing.T) {
	f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/manifests/") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	tr := mustTransport(t, New(newGoodKeyring(t, f.host()), Options{}), ref.Context())
	_, err := remote.Image(ref, remote.WithTransport(tr.Wrapper()))
	var terr *transport.Error
	if n := len(f.recordedRequests("/manifests/")); !errors.As(err, &terr) || terr.StatusCode != 503 || n != 4 {
		t.Errorf("%d requests, %v", n, err)
	}
}

// TestCredentialWithoutUser verifies that a credential without a user name is never sent, and that
// the result is the response to the other credentials.
func TestCredentialWithoutUser(t *testing.T) {
	f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, nil)
	missing := parseReference(t, f.host()+"/team/app:missing")
	u := &providerUsers{}
	u.setUsers(providerUser{key: f.host(), password: canary.PasswordSecret}, providerUser{key: f.host(), user: "good", password: canary.PasswordSecret})
	tr := mustTransport(t, New(u.newKeyring(t, f.host()), Options{}), ref.Context())
	var terr *transport.Error
	if _, err := remote.Image(missing, remote.WithTransport(tr.Wrapper())); !errors.As(err, &terr) || terr.StatusCode != 404 {
		t.Errorf("got %v, want a 404", err)
	}
	if err := pullLayers(t.Context(), ref, tr.Wrapper()); err != nil {
		t.Error(err)
	}
	u.setUsers(providerUser{key: f.host(), password: canary.PasswordSecret})
	err := pullLayers(t.Context(), ref, mustTransport(t, New(u.newKeyring(t, f.host()), Options{}), ref.Context()).Wrapper())
	if err == nil || !strings.Contains(err.Error(), "no user name") {
		t.Errorf("alone: got %v", err)
	}
	for _, r := range f.recordedRequests("") {
		if _, _, ok := r.BasicAuth(); ok && basicAuthUser(r) != "good" {
			t.Errorf("%s was sent by %q", r.URL, basicAuthUser(r))
		}
	}
}

// TestUserNamesNeedQuotes verifies user names that must be quoted in JSON, headers and errors.
// Their passwords are empty.
func TestUserNamesNeedQuotes(t *testing.T) {
	for _, odd := range []string{`a"b`, "a\nb", "ü😀", `a\b`} {
		f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, nil)
		u := &providerUsers{}
		u.setUsers(providerUser{key: f.host(), user: odd}, providerUser{key: f.host(), user: "other", password: canary.PasswordSecret})
		err := pullLayers(t.Context(), ref, mustTransport(t, New(u.newKeyring(t, f.host()), Options{}), ref.Context()).Wrapper())
		var terr *transport.Error
		if !errors.As(err, &terr) || len(terr.Errors) != 2 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v", odd, err)
			continue
		}
		if want := fmt.Sprintf("user %q", odd); !strings.Contains(terr.Errors[0].Message, want) {
			t.Errorf("got %q, want %s in it", terr.Errors[0].Message, want)
		}
		if got := basicAuthUser(f.recordedRequests("/manifests/")[0]); got != odd {
			t.Errorf("sent %q, want %q", got, odd)
		}
	}
}

// TestEchoingRegistryShowsNoSecret verifies that responses and errors contain no secret if the
// registry repeats every secret that it receives.
func TestEchoingRegistryShowsNoSecret(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 501} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, func(w http.ResponseWriter, r *http.Request) bool {
				name, password, ok := r.BasicAuth()
				if !ok || !strings.HasPrefix(r.URL.Path, "/v2/team") {
					return false
				}
				w.Header().Set("X-Echo", r.Header.Get("Authorization"))
				w.Header().Set("X-Password", password)
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"%s %s"}]}`, password, name, r.Header.Get("Authorization"))
				return true
			})
			tr := mustTransport(t, New(newTwoUserKeyring(t, f.host()), Options{}), ref.Context())
			req, _ := http.NewRequestWithContext(t.Context(), method, f.URL+"/v2/team/app/blobs/uploads/", nil)
			resp, err := tr.RoundTrip(req)
			if err != nil || resp.StatusCode != status {
				t.Fatalf("got %v, %v", resp, err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			canary.AssertAbsent(t, fmt.Sprintf("%s %d: the answer", method, status), fmt.Sprint(resp.Header, string(body)))
			if _, err := remote.Image(ref, remote.WithTransport(tr.Wrapper())); err != nil {
				canary.AssertAbsent(t, "the error", err.Error())
			}
		}
	}
}
