// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	ggcrlayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testfault"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
)

var (
	goodCredential = regcred.Credential{Provider: "good", Username: "ci", Password: plugin.NewSecret(canary.PasswordSecret)}
	wrongCredential  = regcred.Credential{Provider: "bad", Username: "ci", Password: plugin.NewSecret(canary.PasswordSecret + "-old")}
	devCredential  = regcred.Credential{Provider: "dev", Username: "dev", Password: plugin.NewSecret(canary.TokenSecret)}
)

// fastRetry shortens the delays between retries. Package login tests the delays.
var fastRetry = login.RetryOptions{Wait: time.Microsecond}

// startRegistry starts a registry that holds team/app:v1.
func startRegistry(t *testing.T, auth testregistry.Auth) (reg *testregistry.Server, image, digest string) {
	t.Helper()
	return startRegistryWith(t, testregistry.Options{Auth: auth}, testregistry.Image{})
}

func startRegistryWith(t *testing.T, opts testregistry.Options, img testregistry.Image) (reg *testregistry.Server, image, digest string) {
	t.Helper()
	opts.Users = map[string]string{"ci": canary.PasswordSecret, "dev": canary.TokenSecret, "empty": ""}
	reg, err := testregistry.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Close() })
	digest = must.Get(reg.Push("team/app", "v1", img))(t)
	return reg, reg.Addr() + "/team/app:v1", digest
}

// mustPull pulls an image and checks the layout.
func mustPull(t *testing.T, p *Puller, image string, creds []regcred.Credential, dir string) *Result {
	t.Helper()
	res, err := p.Pull(t.Context(), image, creds, dir)
	if err != nil {
		t.Fatalf("Pull: %v", err)
	}
	checkLayout(t, dir)
	if got := taggedDigests(t, dir)[res.Image]; got != res.Digest {
		t.Errorf("index.json names %s for %s, the result says %s", got, res.Image, res.Digest)
	}
	return res
}

// mustFail returns the error of a pull that must fail.
func mustFail(t *testing.T, p *Puller, image string, creds []regcred.Credential, dir string) *Error {
	t.Helper()
	res, err := p.Pull(t.Context(), image, creds, dir)
	if err == nil {
		t.Fatalf("Pull succeeded: %+v", res)
	}
	canary.AssertAbsent(t, "the error", fmt.Sprintf("%v %+v %#v", err, err, err))
	var all *Error
	if !errors.As(err, &all) {
		t.Fatalf("error %v of type %T, want *Error", err, err)
	}
	checkNoTemp(t, dir)
	return all
}

// checkLayout reads the whole layout with go-containerregistry.
func checkLayout(t *testing.T, dir string) {
	t.Helper()
	index, err := ggcrlayout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatalf("not a layout: %v", err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the layout is not valid: %v", err)
	}
	checkNoTemp(t, dir)
}

func checkNoTemp(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".") && path != dir {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

// taggedDigests returns the digests in index.json by reference.
func taggedDigests(t *testing.T, dir string) map[string]string {
	t.Helper()
	raw := must.Get(os.ReadFile(filepath.Join(dir, "index.json")))(t)
	m := must.Get(v1.ParseIndexManifest(strings.NewReader(string(raw))))(t)
	got := map[string]string{}
	for _, d := range m.Manifests {
		got[d.Annotations["org.opencontainers.image.ref.name"]] = d.Digest.String()
	}
	return got
}

// contentRequests returns the requests that need a credential, which are all requests except
// the ping.
func contentRequests(reg *testregistry.Server) []testregistry.Request {
	return slices.DeleteFunc(reg.Requests(), func(r testregistry.Request) bool { return r.Path == "/v2/" })
}

func checkNeverAnonymous(t *testing.T, reg *testregistry.Server) {
	t.Helper()
	for _, r := range contentRequests(reg) {
		if r.Scheme == "" {
			t.Errorf("anonymous request: %s %s, status %d", r.Method, r.Path, r.Status)
		}
	}
	canary.AssertAbsent(t, "the access log", fmt.Sprint(reg.Requests()))
}

func TestPull(t *testing.T) {
	for _, tt := range []struct {
		name  string
		auth  testregistry.Auth
		creds []regcred.Credential
	}{
		{"open registry, anonymous", testregistry.AuthNone, nil},
		{"open registry, with a credential", testregistry.AuthNone, []regcred.Credential{goodCredential}},
		{"basic", testregistry.AuthBasic, []regcred.Credential{goodCredential}},
		{"bearer", testregistry.AuthBearer, []regcred.Credential{goodCredential}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reg, image, digest := startRegistry(t, tt.auth)
			dir := filepath.Join(t.TempDir(), "new", "layout")
			res := mustPull(t, &Puller{}, image, tt.creds, dir)

			layers := res.Layers
			var bytes int64
			for _, l := range layers {
				bytes += l.Size
			}
			if len(layers) != 2 || res.Bytes <= bytes || layers[0].Reused {
				t.Errorf("%d layers with %d bytes, %d bytes in all", len(layers), bytes, res.Bytes)
			}
			want := &Result{
				Image: image, Digest: digest, Resolved: digest,
				MediaType: "application/vnd.oci.image.manifest.v1+json", Platform: "linux/" + runtime.GOARCH,
			}
			if tt.creds != nil {
				want.Credential = &tt.creds[0]
				if tt.auth != testregistry.AuthNone {
					checkNeverAnonymous(t, reg)
				}
			}
			if diff := cmp.Diff(want, res, cmpopts.IgnoreFields(Result{}, "Layers", "Bytes"), cmpopts.IgnoreUnexported(regcred.Credential{})); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPullByDigest(t *testing.T) {
	_, image, digest := startRegistry(t, testregistry.AuthNone)
	repo := strings.TrimSuffix(image, ":v1")
	for _, ref := range []string{repo + "@" + digest, repo + ":other@" + digest} {
		if res := mustPull(t, &Puller{}, ref, nil, t.TempDir()); res.Digest != digest || res.Image != repo+"@"+digest {
			t.Errorf("%s: got %s as %s", ref, res.Digest, res.Image)
		}
	}
}

func TestCredentialsInOrder(t *testing.T) {
	for _, auth := range []testregistry.Auth{testregistry.AuthBasic, testregistry.AuthBearer} {
		reg, image, _ := startRegistry(t, auth)
		var refused []string
		p := &Puller{OnRejected: func(c regcred.Credential) { refused = append(refused, c.Provider) }}
		res := mustPull(t, p, image, []regcred.Credential{wrongCredential, goodCredential, devCredential}, t.TempDir())
		if res.Credential == nil || res.Credential.Provider != "good" {
			t.Errorf("worked: %+v, want the second credential", res.Credential)
		}
		if len(res.Failed) != 1 || res.Failed[0].Status != 401 || res.Failed[0].Code != "UNAUTHORIZED" || res.Failed[0].Credential.Provider != "bad" {
			t.Errorf("failed tries: %+v, want the first credential with 401", res.Failed)
		}
		if !slices.Equal(refused, []string{"bad"}) {
			t.Errorf("refused: %v, want bad", refused)
		}
		checkNeverAnonymous(t, reg)
		for _, r := range reg.Requests() {
			if r.User == "dev" {
				t.Errorf("the third credential was used: %s %s", r.Method, r.Path)
			}
		}
	}
}

func TestAllRefused(t *testing.T) {
	for _, auth := range []testregistry.Auth{testregistry.AuthBasic, testregistry.AuthBearer} {
		// The image is public, so an anonymous pull would succeed.
		reg, image, _ := startRegistryWith(t, testregistry.Options{Auth: auth, Rules: []testregistry.Rule{
			{User: testregistry.Anonymous, Pull: true},
		}}, testregistry.Image{})
		var refused []string
		p := &Puller{OnRejected: func(c regcred.Credential) { refused = append(refused, c.Provider) }}
		dir := filepath.Join(t.TempDir(), "out")
		err := mustFail(t, p, image, []regcred.Credential{wrongCredential, devCredential}, dir)
		var got []string
		for _, try := range err.Tries {
			got = append(got, fmt.Sprintf("%s: %d %s", try.CredentialText(), try.Status, try.Code))
		}
		want := []string{`provider "bad", user "ci": 401 UNAUTHORIZED`, `provider "dev", user "dev": 403 DENIED`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("auth %d: tries (-want +got):\n%s", auth, diff)
		}
		if !slices.Equal(refused, []string{"bad"}) {
			t.Errorf("auth %d: refused: %v, want bad: a 403 does not reject the credential", auth, refused)
		}
		checkNeverAnonymous(t, reg)
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("auth %d: the output directory was made", auth)
		}
		for _, part := range []string{"pulling", image, `": 2 credentials failed: provider "bad", `, `; provider "dev", `, "HTTP 401 UNAUTHORIZED", "HTTP 403 DENIED"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not say %q", err, part)
			}
		}
	}
}

// TestPasswordIsAWord verifies that a password is not redacted in regcred's own messages if
// it is an English word. A gap in a known message would reveal the password.
func TestPasswordIsAWord(t *testing.T) {
	_, image, _ := startRegistryWith(t, testregistry.Options{Auth: testregistry.AuthBasic}, testregistry.Image{})
	err := mustFail(t, &Puller{}, image, []regcred.Credential{{Provider: "p", Username: "ci", Password: plugin.NewSecret("wrong")}}, t.TempDir())
	if want := "user name or password is wrong, has expired"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want %q in it", err, want)
	}
}

func TestAnonymousOnce(t *testing.T) {
	reg, image, _ := startRegistry(t, testregistry.AuthBasic)
	p := &Puller{OnRejected: func(c regcred.Credential) { t.Errorf("refused was called with %+v", c) }}
	err := mustFail(t, p, image, nil, t.TempDir())
	if len(err.Tries) != 1 || err.Tries[0].Credential != nil || err.Tries[0].Status != 401 {
		t.Errorf("tries: %+v, want one anonymous with 401", err.Tries)
	}
	if got := contentRequests(reg); len(got) != 1 || got[0].Scheme != "" {
		t.Errorf("requests: %+v, want one anonymous", got)
	}
	if want := "anonymous: manifest v1: HTTP 401 UNAUTHORIZED"; !strings.Contains(err.Error(), want) {
		t.Errorf("error %q does not say %q", err, want)
	}
}

func TestRegistryFaults(t *testing.T) {
	type F = testregistry.Fault
	const ever = testregistry.Forever
	for _, tt := range []struct {
		name   string
		fault  F
		status int // 0 means that the pull succeeds
		hits   int
		says   string
	}{
		{"403", F{}, 403, 0, "may not pull"},
		{"404", F{}, 404, 0, "check the name"},
		{"429 once", F{Kind: testregistry.FaultTooManyRequests}, 0, 1, ""},
		{"429 thrice on a blob", F{Kind: testregistry.FaultTooManyRequests, Endpoint: testregistry.EndpointBlobs, Times: 3}, 0, 3, ""},
		{"429 for ever", F{Kind: testregistry.FaultTooManyRequests, Times: ever}, 429, 4, "try again later"},
		{"429 on tokens", F{Kind: testregistry.FaultTooManyRequests, Endpoint: testregistry.EndpointToken, Times: ever}, 429, 4, "login: HTTP 429"},
		{"429, to wait too long", F{Kind: testregistry.FaultTooManyRequests, RetryAfter: time.Hour, Times: ever}, 429, 1, "try again later"},
		{"500 twice", F{Kind: testregistry.FaultServerError, Endpoint: testregistry.EndpointManifests, Times: 2}, 0, 2, ""},
		{"500 for ever", F{Kind: testregistry.FaultServerError, Endpoint: testregistry.EndpointManifests, Times: ever}, 500, 4, "manifest v1: HTTP 500"},
		{"500 on blobs", F{Kind: testregistry.FaultServerError, Endpoint: testregistry.EndpointBlobs, Times: ever}, 500, 4, "blob sha256:"},
		{"401 in the middle", F{Kind: testregistry.FaultUnauthorized, Endpoint: testregistry.EndpointBlobs, After: 1, Times: ever}, 401, 2, "HTTP 401"},
		{"manifest cut once", F{Kind: testregistry.FaultTruncate, Endpoint: testregistry.EndpointManifests, Bytes: 10}, 0, 1, ""},
		{"manifest cut for ever", F{Kind: testregistry.FaultTruncate, Endpoint: testregistry.EndpointManifests, Bytes: 10, Times: ever}, -1, 4, "manifest v1: unexpected EOF"},
		{"blob cut thrice", F{Kind: testregistry.FaultTruncate, Endpoint: testregistry.EndpointBlobs, Bytes: 10, Times: 3}, 0, 3, ""},
		{"blob cut for ever", F{Kind: testregistry.FaultTruncate, Endpoint: testregistry.EndpointBlobs, Bytes: 10, Times: ever}, -1, 4, "unexpected EOF"},
		{"blob wrong once", F{Kind: testregistry.FaultCorrupt, Endpoint: testregistry.EndpointBlobs}, 0, 1, ""},
		{"blob wrong for ever", F{Kind: testregistry.FaultCorrupt, Endpoint: testregistry.EndpointBlobs, Times: ever}, -1, 2, "content with digest sha256:"},
		{"blob stalls", F{Kind: testregistry.FaultSlow, Endpoint: testregistry.EndpointBlobs, Bytes: 10, Delay: time.Minute, Times: ever}, -1, 1, "received no data"},
		{"ping stalls", F{Kind: testregistry.FaultSlow, Endpoint: testregistry.EndpointPing, Delay: time.Minute, Times: ever}, -1, 1, "received no data"},
		{"token stalls", F{Kind: testregistry.FaultSlow, Endpoint: testregistry.EndpointToken, Delay: time.Minute, Times: ever}, -1, 1, "received no data"},
		{"token stalls half way", F{Kind: testregistry.FaultSlow, Endpoint: testregistry.EndpointToken, Bytes: 10, Delay: time.Minute, Times: ever}, -1, 1, "received no data"},
		{"header stalls", F{Kind: testregistry.FaultSlow, Endpoint: testregistry.EndpointManifests, Delay: time.Minute, Times: ever}, -1, 1, "received no data"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reg, image, _ := startRegistryWith(t, testregistry.Options{Auth: testregistry.AuthBearer, Rules: []testregistry.Rule{
				{User: "ci", Prefix: "team", Pull: true},
			}}, testregistry.Image{Layers: 1})
			creds := []regcred.Credential{goodCredential}
			switch tt.status {
			case 403:
				creds = []regcred.Credential{devCredential}
			case 404:
				image = strings.TrimSuffix(image, ":v1") + ":missing"
			}
			in := &testfault.InjectedFault{}
			if tt.hits > 0 {
				in = reg.Inject(tt.fault)
			}
			refused := 0
			p := &Puller{Retry: fastRetry, Parallel: 1, OnRejected: func(regcred.Credential) { refused++ }}
			if tt.fault.Kind == testregistry.FaultSlow {
				p.IdleTimeout, p.ResponseTimeout = time.Second, time.Second // the data before the stall must also arrive within this time
			}
			dir := t.TempDir()
			if tt.status == 0 {
				mustPull(t, p, image, creds, dir)
			} else {
				err := mustFail(t, p, image, creds, dir)
				if got := err.Tries[0].Status; got != max(tt.status, 0) {
					t.Errorf("status %d, want %d", got, tt.status)
				}
				if !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %q does not say %q", err, tt.says)
				}
				if _, err := os.Stat(filepath.Join(dir, "index.json")); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("index.json was written: %v", err)
				}
			}
			if tt.hits > 0 && in.Hits() != tt.hits {
				t.Errorf("%d hits, want %d", in.Hits(), tt.hits)
			}
			if want := map[bool]int{true: 1}[tt.status == 401]; refused != want {
				t.Errorf("refused %d times, want %d", refused, want)
			}
			checkNeverAnonymous(t, reg)
		})
	}
}

func TestTokenExpiresInTheMiddle(t *testing.T) {
	reg, image, _ := startRegistryWith(t, testregistry.Options{Auth: testregistry.AuthBearer}, testregistry.Image{Layers: 5})
	p := &Puller{Parallel: 1, Progress: func(e Event) {
		if e.Kind == EventStart && !e.Config {
			reg.ExpireTokens()
		}
	}}
	mustPull(t, p, image, []regcred.Credential{goodCredential}, t.TempDir())
	expired := 0
	for _, r := range reg.Requests() {
		if r.Scheme == "Bearer" && r.Status == 401 {
			expired++
		}
	}
	if expired == 0 {
		t.Error("no token was refused: the test tests nothing")
	}
	checkNeverAnonymous(t, reg)
}

func TestInterrupted(t *testing.T) {
	reg, image, digest := startRegistryWith(t, testregistry.Options{Auth: testregistry.AuthBasic}, testregistry.Image{LayerSize: 1 << 20})
	dir := t.TempDir()
	mustPull(t, &Puller{}, image, []regcred.Credential{goodCredential}, dir)
	before, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	must.Get(reg.Push("team/app", "v2", testregistry.Image{LayerSize: 1 << 20, Seed: 2}))(t)
	// Every layer stalls halfway. The pull is canceled when the first bytes of a layer
	// arrive.
	reg.Inject(testregistry.Fault{Kind: testregistry.FaultSlow, Endpoint: testregistry.EndpointBlobs, After: 1, Bytes: 1 << 19, Delay: time.Minute, Times: testregistry.Forever})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &Puller{Progress: func(e Event) {
		if e.Kind == EventAdvance && !e.Config {
			cancel()
		}
	}}
	_, err = p.Pull(ctx, strings.Replace(image, ":v1", ":v2", 1), []regcred.Credential{goodCredential, devCredential}, dir)
	var all *Error
	if !errors.Is(err, context.Canceled) || !errors.As(err, &all) || len(all.Tries) != 1 || all.Untried != 1 {
		t.Errorf("error %v, want one try that was cancelled, and one not made", err)
	}
	after := must.Get(os.ReadFile(filepath.Join(dir, "index.json")))(t)
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("index.json changed (-before +after):\n%s", diff)
	}
	checkLayout(t, dir)
	if got := taggedDigests(t, dir)[image]; got != digest {
		t.Errorf("index.json names %s, want %s", got, digest)
	}
}

func TestDeadlineWhileWaiting(t *testing.T) {
	reg, image, _ := startRegistry(t, testregistry.AuthNone)
	in := reg.Inject(testregistry.Fault{Kind: testregistry.FaultTooManyRequests, RetryAfter: 20 * time.Second, Times: testregistry.Forever})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := (&Puller{}).Pull(ctx, image, nil, t.TempDir())
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "HTTP 429") || in.Hits() != 1 {
		t.Errorf("error %v after %d requests, want the deadline and the 429 after 1", err, in.Hits())
	}
}

func TestProgress(t *testing.T) {
	reg, image, _ := startRegistryWith(t, testregistry.Options{}, testregistry.Image{LayerSize: 300_000})
	reg.Inject(testregistry.Fault{Kind: testregistry.FaultTruncate, Endpoint: testregistry.EndpointBlobs, After: 1, Bytes: 100_000})
	var mu sync.Mutex
	kinds := map[string][]EventKind{}
	last := map[string]Event{}
	p := &Puller{Retry: fastRetry, Parallel: 1, Progress: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == EventAdvance && e.Bytes <= last[e.Digest].Bytes && last[e.Digest].Kind == EventAdvance {
			t.Errorf("advance to %d after %d", e.Bytes, last[e.Digest].Bytes)
		}
		last[e.Digest] = e
		kinds[e.Digest] = slices.Compact(append(kinds[e.Digest], e.Kind))
	}}
	dir := t.TempDir()
	res := mustPull(t, p, image, nil, dir)
	for i, l := range res.Layers {
		want := []EventKind{EventQueued, EventStart, EventAdvance, EventDone}
		if i == 0 {
			want = []EventKind{EventQueued, EventStart, EventAdvance, EventRestart, EventAdvance, EventDone}
		}
		if diff := cmp.Diff(want, kinds[l.Digest]); diff != "" {
			t.Errorf("layer %d (-want +got):\n%s", i, diff)
		}
		if diff := cmp.Diff(Event{Kind: EventDone, Digest: l.Digest, Size: l.Size, Bytes: l.Size}, last[l.Digest]); diff != "" {
			t.Errorf("layer %d, last event (-want +got):\n%s", i, diff)
		}
	}
	clear(kinds)
	res = mustPull(t, p, image, nil, dir)
	for i, l := range res.Layers {
		if diff := cmp.Diff([]EventKind{EventQueued, EventStart, EventDone}, kinds[l.Digest]); diff != "" || !last[l.Digest].Reused || !l.Reused {
			t.Errorf("reused layer %d: %+v (-want +got):\n%s", i, last[l.Digest], diff)
		}
	}
}

func TestBadArguments(t *testing.T) {
	for _, tt := range []struct{ name, image, platform, says string }{
		{"empty", "", "", "not an image reference"},
		{"spaces", "a b", "", "not an image reference"},
		{"upper case", "example.com/UPPER", "", "not an image reference"},
		{"scheme", "https://example.com/x", "", "not an image reference"},
		{"short digest", "example.com/x@sha256:12", "", "not an image reference"},
		{"very long", "example.com/" + strings.Repeat("x", 5000), "", "not an image reference"},
		{"platform", "example.com/x", "linux", `platform "linux" is neither`},
		{"platform with too much", "example.com/x", "a/b/c/d", `platform "a/b/c/d" is neither`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &Puller{Platform: tt.platform, Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				t.Error("a request was made")
				return nil, errors.New("no network here")
			})}
			_, err := p.Pull(t.Context(), tt.image, nil, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v does not say %q", err, tt.says)
			}
		})
	}
}

// basicAuth returns a credential's encoding for Basic authentication.
func basicAuth(cred *regcred.Credential) string {
	return base64.StdEncoding.EncodeToString([]byte(cred.Username + ":" + cred.Password.Reveal()))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
