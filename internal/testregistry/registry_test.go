// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

func startServer(t *testing.T, opts Options) *Server {
	t.Helper()
	s := must.Get(New(opts))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func pushImage(t *testing.T, s *Server, repo string, img Image) string {
	t.Helper()
	return must.Get(s.Push(repo, "v1", img))(t)
}

var testUsers = map[string]string{"ci": canary.PasswordSecret, "dev": canary.PasswordSecret + "-dev"}

func basicAuthFor(user string) authn.Authenticator {
	if user == Anonymous {
		return authn.Anonymous
	}
	return &authn.Basic{Username: user, Password: testUsers[user]}
}

// pullImage pulls the tag v1 with go-containerregistry. It returns the digest and the HTTP status.
func pullImage(t *testing.T, s *Server, repo string, auth authn.Authenticator) (string, int) {
	t.Helper()
	ref := must.Get(name.NewTag(s.Addr() + "/" + repo + ":v1"))(t)
	img, err := remote.Image(ref, remote.WithAuth(auth), remote.WithRetryStatusCodes())
	var terr *transport.Error
	if errors.As(err, &terr) {
		return "", terr.StatusCode
	}
	if err != nil {
		t.Fatalf("pulling %s: %v", ref, err)
	}
	if err := validate.Image(img); err != nil {
		t.Errorf("the image is not valid: %v", err)
	}
	digest := must.Get(img.Digest())(t)
	return digest.String(), http.StatusOK
}

func TestPushIsDeterministic(t *testing.T) {
	a, b := startServer(t, Options{}), startServer(t, Options{Auth: AuthBasic, Users: testUsers})
	if x, y := pushImage(t, a, "x", Image{}), pushImage(t, b, "team/y", Image{}); x != y {
		t.Errorf("two registries, one image: digests %s and %s", x, y)
	}
	if x, y := pushImage(t, a, "x", Image{}), pushImage(t, a, "x", Image{Seed: 1}); x == y {
		t.Errorf("two seeds have the same digest %s", x)
	}
	if got := b.Requests(); len(got) != 0 {
		t.Errorf("Push is in the access log: %v", got)
	}
}

func TestPushIndex(t *testing.T) {
	s := startServer(t, Options{})
	want := pushImage(t, s, "multi", Image{Platforms: []string{"linux/amd64", "linux/arm64/v8"}})
	ref, _ := name.NewTag(s.Addr() + "/multi:v1")
	index := must.Get(remote.Index(ref))(t)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	if got, _ := index.Digest(); got.String() != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	m := must.Get(index.IndexManifest())(t)
	var got []string
	for _, d := range m.Manifests {
		img := must.Get(index.Image(d.Digest))(t)
		config := must.Get(img.ConfigFile())(t)
		got = append(got, d.Platform.String()+" "+config.Platform().String())
	}
	if diff := cmp.Diff([]string{"linux/amd64 linux/amd64", "linux/arm64/v8 linux/arm64/v8"}, got); diff != "" {
		t.Errorf("platforms of descriptor and config (-want +got):\n%s", diff)
	}
}

func TestWhoMayPull(t *testing.T) {
	rules := []Rule{
		{User: "ci", Prefix: "team", Pull: true, Push: true},
		{User: AnyUser, Prefix: "shared", Pull: true},
		{User: Anonymous, Prefix: "public", Pull: true},
	}
	for _, tt := range []struct {
		name  string
		auth  Auth
		rules []Rule
		user  string
		repo  string
		want  int
	}{
		{"open", AuthNone, nil, Anonymous, "team/app", 200},
		{"open, with a login", AuthNone, nil, "ci", "team/app", 200},
		{"basic", AuthBasic, nil, "ci", "team/app", 200},
		{"basic, anonymous", AuthBasic, nil, Anonymous, "team/app", 401},
		{"basic, unknown user", AuthBasic, nil, "nobody", "team/app", 401},
		{"basic, rule", AuthBasic, rules, "ci", "team/app", 200},
		{"basic, the prefix itself", AuthBasic, rules, "ci", "team", 200},
		{"basic, a sibling of the prefix", AuthBasic, rules, "ci", "team-evil/app", 403},
		{"basic, somebody else's", AuthBasic, rules, "dev", "team/app", 403},
		{"basic, shared", AuthBasic, rules, "dev", "shared/app", 200},
		{"basic, shared is not public", AuthBasic, rules, Anonymous, "shared/app", 401},
		{"basic, public", AuthBasic, rules, Anonymous, "public/app", 200},
		{"bearer", AuthBearer, nil, "ci", "team/app", 200},
		{"bearer, anonymous", AuthBearer, nil, Anonymous, "team/app", 401},
		{"bearer, unknown user", AuthBearer, nil, "nobody", "team/app", 401},
		{"bearer, rule", AuthBearer, rules, "ci", "team/app", 200},
		{"bearer, somebody else's", AuthBearer, rules, "dev", "team/app", 403},
		{"bearer, shared", AuthBearer, rules, "dev", "shared/app", 200},
		{"bearer, shared is not public", AuthBearer, rules, Anonymous, "shared/app", 401},
		{"bearer, public", AuthBearer, rules, Anonymous, "public/app", 200},
		{"no such repository", AuthBasic, nil, "ci", "missing", 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, Options{Auth: tt.auth, Users: testUsers, Rules: tt.rules})
			want := ""
			if tt.want != 404 {
				if digest := pushImage(t, s, tt.repo, Image{}); tt.want == 200 {
					want = digest
				}
			}
			auth := basicAuthFor(tt.user)
			if tt.user == "nobody" {
				auth = &authn.Basic{Username: "nobody", Password: canary.PasswordSecret}
			}
			digest, status := pullImage(t, s, tt.repo, auth)
			if digest != want || status != tt.want {
				t.Errorf("got %q, status %d, want %q, status %d", digest, status, want, tt.want)
			}
			canary.AssertAbsent(t, "the access log", fmt.Sprint(s.Requests()))
		})
	}
}

func TestWhoMayPush(t *testing.T) {
	rules := []Rule{{User: "ci", Prefix: "team", Pull: true, Push: true}, {User: "dev", Pull: true}}
	for _, auth := range []Auth{AuthBasic, AuthBearer} {
		s := startServer(t, Options{Auth: auth, Users: testUsers, Rules: rules})
		pushImage(t, s, "team/app", Image{})
		for user, want := range map[string]int{"ci": 0, "dev": 403, Anonymous: 401} {
			from, _ := name.NewTag(s.Addr() + "/team/app:v1")
			img, err := remote.Image(from, remote.WithAuth(basicAuthFor("ci")))
			if err != nil {
				t.Fatal(err)
			}
			err = remote.Write(from.Context().Tag("by-"+user), img, remote.WithAuth(basicAuthFor(user)))
			var terr *transport.Error
			got := 0
			if errors.As(err, &terr) {
				got = terr.StatusCode
			} else if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("auth %d, user %q: pushing got status %d, want %d", auth, user, got, want)
			}
		}
	}
}

func TestSetUser(t *testing.T) {
	for _, auth := range []Auth{AuthBasic, AuthBearer} {
		s := startServer(t, Options{Auth: auth, Users: testUsers})
		pushImage(t, s, "x", Image{})
		steps := []struct {
			do   func()
			want int
		}{
			{func() {}, 200},
			{func() { s.SetUser("ci", canary.PasswordSecret+"-new") }, 401},
			{func() { s.SetUser("ci", canary.PasswordSecret) }, 200},
			{func() { s.RemoveUser("ci") }, 401},
		}
		for i, step := range steps {
			step.do()
			if _, status := pullImage(t, s, "x", basicAuthFor("ci")); status != step.want {
				t.Errorf("auth %d, step %d: status %d, want %d", auth, i, status, step.want)
			}
		}
	}
}

// httpGet sends one request with net/http instead of a registry client.
func httpGet(t *testing.T, method, url string, header map[string]string, body string) (*http.Response, []byte, error) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, b, err
}

func TestTokenFlow(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := startServer(t, Options{Auth: AuthBearer, Users: testUsers, TokenTTL: time.Minute, Now: func() time.Time { return now }})
	pushImage(t, s, "team/app", Image{})
	pushImage(t, s, "team/other", Image{})
	manifest := s.URL() + "/v2/team/app/manifests/v1"

	resp, _, err := httpGet(t, "GET", manifest, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`Bearer realm="%s/token",service="testregistry",scope="repository:team/app:pull"`, s.URL())
	if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != 401 || got != want {
		t.Fatalf("got status %d, challenge %q, want 401, %q", resp.StatusCode, got, want)
	}

	query := url.Values{"service": {"testregistry"}, "scope": {"repository:team/app:pull"}}
	form := url.Values{"grant_type": {"password"}, "username": {"ci"}, "password": {canary.PasswordSecret}}
	for k, v := range query {
		form[k] = v
	}
	basic := basicHeader("ci", canary.PasswordSecret)
	for _, tt := range []struct {
		name string
		ask  func() (*http.Response, []byte, error)
		want int
	}{
		{"GET", func() (*http.Response, []byte, error) {
			return httpGet(t, "GET", s.URL()+"/token?"+query.Encode(), basic, "")
		}, 200},
		{"POST", func() (*http.Response, []byte, error) {
			return httpGet(t, "POST", s.URL()+"/token", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, form.Encode())
		}, 200},
		{"wrong password", func() (*http.Response, []byte, error) {
			return httpGet(t, "GET", s.URL()+"/token?"+query.Encode(), basicHeader("ci", canary.TokenSecret), "")
		}, 401},
		{"POST without login", func() (*http.Response, []byte, error) {
			return httpGet(t, "POST", s.URL()+"/token?"+query.Encode(), nil, "")
		}, 401},
		{"other service", func() (*http.Response, []byte, error) {
			return httpGet(t, "GET", s.URL()+"/token?service=x", basic, "")
		}, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, body, err := tt.ask()
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.want {
				t.Fatalf("status %d, want %d", resp.StatusCode, tt.want)
			}
			if tt.want != 200 {
				return
			}
			var answer struct {
				Token     string `json:"token"`
				Access    string `json:"access_token"`
				ExpiresIn int    `json:"expires_in"`
			}
			must.Do(t, json.Unmarshal(body, &answer))
			if answer.Token == "" || answer.Token != answer.Access || answer.ExpiresIn != 60 {
				t.Errorf("not a good response: token %d bytes, access_token %d bytes, expires_in %d", len(answer.Token), len(answer.Access), answer.ExpiresIn)
			}
			bearer := map[string]string{"Authorization": "Bearer " + answer.Token}
			status := func(url string) int {
				resp, _, err := httpGet(t, "GET", url, bearer, "")
				if err != nil {
					t.Fatal(err)
				}
				return resp.StatusCode
			}
			if got := status(manifest); got != 200 {
				t.Errorf("with the token: status %d", got)
			}
			if got := status(s.URL() + "/v2/team/other/manifests/v1"); got != 401 {
				t.Errorf("outside the token's scope: status %d, want 401", got)
			}
			now = now.Add(time.Minute)
			if got := status(manifest); got != 401 {
				t.Errorf("with the expired token: status %d, want 401", got)
			}
		})
	}
}

func basicHeader(user, password string) map[string]string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return map[string]string{"Authorization": r.Header.Get("Authorization")}
}

func TestPasswordIsNoLoginInBearerMode(t *testing.T) {
	s := startServer(t, Options{Auth: AuthBearer, Users: testUsers})
	resp, _, err := httpGet(t, "GET", s.URL()+"/v2/", basicHeader("ci", canary.PasswordSecret), "")
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 401 {
		t.Errorf("status %d, want 401", resp.StatusCode)
	}
}

func TestExpireTokens(t *testing.T) {
	s := startServer(t, Options{Auth: AuthBearer, Users: testUsers})
	pushImage(t, s, "x", Image{})
	ref, _ := name.NewTag(s.Addr() + "/x:v1")
	img := must.Get(remote.Image(ref, remote.WithAuth(basicAuthFor("ci"))))(t)
	s.ExpireTokens()
	s.ResetLog()
	if err := validate.Image(img); err != nil {
		t.Errorf("the client was to get a new token by itself: %v", err)
	}
	if got := s.Requests()[0]; got.Status != 401 || got.Scheme != "Bearer" || got.User != "ci" {
		t.Errorf("first request with the expired token: %+v", got)
	}
}

func TestRequests(t *testing.T) {
	s := startServer(t, Options{Auth: AuthBasic, Users: testUsers})
	pushImage(t, s, "x", Image{})
	for _, header := range []map[string]string{nil, basicHeader("dev", canary.TokenSecret), basicHeader("ci", canary.PasswordSecret)} {
		if _, _, err := httpGet(t, "GET", s.URL()+"/v2/x/manifests/v1?secret="+canary.ArgSecret, header, ""); err != nil {
			t.Fatal(err)
		}
	}
	got := s.Requests()
	for i := range got {
		got[i].Time = time.Time{}
	}
	const path = "/v2/x/manifests/v1"
	want := []Request{
		{Method: "GET", Path: path, Status: 401},
		{Method: "GET", Path: path, Status: 401, Scheme: "Basic", User: "dev"},
		{Method: "GET", Path: path, Status: 200, Scheme: "Basic", User: "ci"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("access log (-want +got):\n%s", diff)
	}
	s.ResetLog()
	if got := s.Requests(); len(got) != 0 {
		t.Errorf("after ResetLog: %v", got)
	}
}

func TestLogIsBounded(t *testing.T) {
	s := startServer(t, Options{})
	for range maxLogEntries + 1 {
		s.logRequest(&http.Request{URL: &url.URL{}}, authResult{}, 200)
	}
	if got := len(s.Requests()); got > maxLogEntries || got < maxLogEntries/2 {
		t.Errorf("%d entries after %d requests", got, maxLogEntries+1)
	}
}

func TestRedirectBlobs(t *testing.T) {
	store := startServer(t, Options{})
	s := startServer(t, Options{RedirectBlobs: store.URL()})
	pushImage(t, store, "x", Image{})
	pushImage(t, s, "x", Image{})
	resp, _, err := httpGet(t, "GET", s.URL()+"/v2/x/blobs/"+newLayer(t, s, "x").String(), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	want := store.URL() + "/v2/x/blobs/" + newLayer(t, s, "x").String()
	if got := resp.Header.Get("Location"); resp.StatusCode != 307 || got != want {
		t.Errorf("got %d to %q, want 307 to %q", resp.StatusCode, got, want)
	}
}

// newLayer returns the digest of an image's first layer.
func newLayer(t *testing.T, s *Server, repo string) v1.Hash {
	t.Helper()
	_, body, err := httpGet(t, "GET", s.URL()+"/v2/"+repo+"/manifests/v1", basicHeader("ci", testUsers["ci"]), "")
	if err != nil {
		t.Fatal(err)
	}
	m, err := v1.ParseManifest(strings.NewReader(string(body)))
	if err != nil || len(m.Layers) == 0 {
		t.Fatalf("no layers in the manifest: %v", err)
	}
	return m.Layers[0].Digest
}

func TestCloseEndsSlowRequests(t *testing.T) {
	s := must.Get(New(Options{}))(t)
	slow := s.Inject(Fault{Kind: FaultSlow, Delay: time.Hour})
	failed := make(chan error, 1)
	go func() {
		resp, err := http.Get(s.URL() + "/v2/")
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	waitFor(t, func() bool { return slow.Hits() == 1 })
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-failed; err == nil {
		t.Error("the request succeeded")
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// waitFor polls until cond returns true.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !cond() {
		if ctx.Err() != nil {
			t.Fatal("still waiting after a minute")
		}
		time.Sleep(time.Millisecond)
	}
}
