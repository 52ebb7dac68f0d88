// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/stream"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// pushRights allows the user "other" to pull, and the user "good" to pull and push.
var pushRights = []testregistry.Rule{
	{User: "other", Prefix: "team", Pull: true},
	{User: "good", Prefix: "team", Pull: true, Push: true},
}

// TestPush verifies a push and a pull with three credentials: a wrong one, one that can only pull,
// and one that can push. The wrong password is sent at most once.
func TestPush(t *testing.T) {
	for scheme, auth := range authSchemes {
		t.Run(scheme, func(t *testing.T) {
			s, ref := startRegistry(t, testregistry.Options{Auth: auth, Rules: pushRights}, 1)
			u := &providerUsers{}
			u.setUsers(providerUser{key: s.Addr(), user: "good", password: "wrong"}, providerUser{key: s.Addr(), user: "other", password: canary.PasswordSecret}, providerUser{key: s.Addr(), user: "good", password: canary.PasswordSecret})
			tr := mustTransport(t, New(u.newKeyring(t, s.Addr()), Options{}), ref.Context())
			img := must.Get(random.Image(10_000, 3))(t)
			to := ref.Context().Tag("pushed")
			must.Do(t, remote.Write(to, img, remote.WithTransport(tr.Wrapper())))
			if err := pullLayers(t.Context(), to, tr.Wrapper()); err != nil {
				t.Error(err)
			}
			if _, _, refused := countLogins(s); refused["good"] > 1 {
				t.Errorf("the wrong password was shown %d times", refused["good"])
			}
		})
	}
}

// TestPullCredentialIsKept verifies that a push with another credential does not change the
// credential for pulls.
func TestPullCredentialIsKept(t *testing.T) {
	s, ref := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBasic, Rules: pushRights}, 1)
	tr := mustTransport(t, New(newTwoUserKeyring(t, s.Addr()), Options{}), ref.Context())
	must.Do(t, pullLayers(t.Context(), ref, tr.Wrapper()))
	img := must.Get(random.Image(1000, 1))(t)
	if err := remote.Write(ref.Context().Tag("x"), img, remote.WithTransport(tr.Wrapper())); err != nil {
		t.Error(err)
	}
	if c := tr.Credential(); c == nil || c.Username != "other" {
		t.Errorf("%+v pulls", c)
	}
}

// TestPushStream pushes a layer that can be read only once.
func TestPushStream(t *testing.T) {
	for scheme, auth := range authSchemes {
		t.Run(scheme, func(t *testing.T) {
			s, ref := startRegistry(t, testregistry.Options{Auth: auth, Rules: pushRights}, 1)
			tr := mustTransport(t, New(newTwoUserKeyring(t, s.Addr()), Options{}), ref.Context())
			layer := stream.NewLayer(io.NopCloser(bytes.NewReader(make([]byte, 1<<20))))
			img := must.Get(mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layer))(t)
			to := ref.Context().Tag("streamed")
			must.Do(t, remote.Write(to, img, remote.WithTransport(tr.Wrapper())))
			if err := pullLayers(t.Context(), to, tr.Wrapper()); err != nil {
				t.Error(err)
			}
		})
	}
}

// closeCounter is a body that counts calls of Close.
type closeCounter struct {
	io.Reader
	closed *atomic.Int32
}

func (c *closeCounter) Close() error { c.closed.Add(1); return nil }

// TestUploadBodies verifies that a body is sent completely or not at all, and always closed.
func TestUploadBodies(t *testing.T) {
	const text = "what is uploaded"
	for _, tt := range []struct {
		name   string
		auth   testregistry.Auth
		users  []string // users of the keyring's credentials
		path   string
		again  bool // the request has GetBody
		expire bool // tokens expire before the body is sent
		want   int  // status; 0 means an error
	}{
		{"accepted", testregistry.AuthBasic, []string{"good"}, "team/app", false, false, 202},
		{"second credential", testregistry.AuthBasic, []string{"other", "good"}, "team/app", true, false, 202},
		{"second credential, gone", testregistry.AuthBasic, []string{"other", "good"}, "team/app", false, false, 403},
		{"token ends", testregistry.AuthBearer, []string{"good"}, "team/app", true, true, 202},
		{"token ends, gone", testregistry.AuthBearer, []string{"good"}, "team/app", false, true, 0},
		{"another repository", testregistry.AuthBasic, []string{"good"}, "other", true, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, ref := startProxy(t, testregistry.Options{Auth: tt.auth, Rules: pushRights}, 1, nil)
			u := &providerUsers{}
			for _, name := range tt.users {
				u.pairs = append(u.pairs, providerUser{key: f.host(), user: name, password: canary.PasswordSecret})
			}
			tr := mustTransport(t, New(u.newKeyring(t, f.host()), Options{}), ref.Context())
			req, _ := http.NewRequestWithContext(t.Context(), "POST", f.URL+"/v2/team/app/blobs/uploads/", nil)
			resp, err := tr.RoundTrip(req)
			if err != nil || resp.StatusCode != 202 {
				t.Fatalf("got %v, %v", resp, err)
			}
			resp.Body.Close()
			at := resp.Header.Get("Location")
			if tt.expire {
				f.registry.ExpireTokens()
			}
			if !strings.Contains(tt.name, "token") && len(tt.users) > 1 { // use a Transport that has accepted no credential yet
				tr = mustTransport(t, New(u.newKeyring(t, f.host()), Options{}), ref.Context())
			}
			var closed atomic.Int32
			made := int32(1)
			body := func() io.ReadCloser { return &closeCounter{strings.NewReader(text), &closed} }
			req, err = http.NewRequestWithContext(t.Context(), "PATCH", f.URL+strings.Replace(at[strings.Index(at, "/v2/"):], "team/app", tt.path, 1), body())
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = -1 // chunked, so that the server cannot detect a truncated body
			if tt.again {
				req.GetBody = func() (io.ReadCloser, error) { made++; return body(), nil }
			}
			resp, err = tr.RoundTrip(req)
			switch {
			case tt.want == 0 && err == nil, tt.want > 0 && (err != nil || resp.StatusCode != tt.want):
				t.Errorf("got %v, %v, want %d", resp, err, tt.want)
			}
			if resp != nil {
				resp.Body.Close()
			}
			for _, r := range f.recordedRequests("/uploads/") {
				if r.Method == "PATCH" && r.body != text {
					t.Errorf("%q was sent", r.body)
				}
			}
			if n := closed.Load(); n < made {
				t.Errorf("%d bodies were closed %d times", made, n)
			}
		})
	}
}

// TestPushRefused verifies the error if every credential is rejected for a push, and the error if
// the body cannot be read again.
func TestPushRefused(t *testing.T) {
	s, ref := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBasic, Rules: pushRights}, 1)
	u := &providerUsers{}
	u.setUsers(providerUser{key: s.Addr(), user: "other", password: canary.PasswordSecret}, providerUser{key: s.Addr(), user: "good", password: "wrong"})
	tr := mustTransport(t, New(u.newKeyring(t, s.Addr()), Options{}), ref.Context())
	img, err := random.Image(1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	err = remote.Write(ref.Context().Tag("x"), img, remote.WithTransport(tr.Wrapper()))
	if err == nil || !strings.Contains(err.Error(), "may not") {
		t.Errorf("got %v", err)
	}
	// The credential that was rejected for the push is still used for pulls.
	if err := pullLayers(t.Context(), ref, tr.Wrapper()); err != nil {
		t.Error(err)
	}
	broken := errors.New("the file is gone")
	req, _ := http.NewRequestWithContext(t.Context(), "PUT", s.URL()+"/v2/team/app/manifests/x", strings.NewReader("{}"))
	req.GetBody = func() (io.ReadCloser, error) { return nil, broken }
	fresh := mustTransport(t, New(newTwoUserKeyring(t, s.Addr()), Options{}), ref.Context())
	if resp, err := fresh.RoundTrip(req); !errors.Is(err, broken) {
		t.Errorf("got %v, %v", resp, err)
	}
}

// TestParallelPush pushes 30 layers concurrently.
func TestParallelPush(t *testing.T) {
	s, ref := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBearer, Rules: pushRights}, 1)
	tr := mustTransport(t, New(newTwoUserKeyring(t, s.Addr()), Options{}), ref.Context())
	var img v1.Image = empty.Image
	for i := range 30 {
		layer, err := random.Layer(int64(1000+i), types.DockerLayer)
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			t.Fatal(err)
		}
	}
	if err := remote.Write(ref.Context().Tag("thirty"), img, remote.WithTransport(tr.Wrapper()), remote.WithJobs(10)); err != nil {
		t.Error(err)
	}
}
