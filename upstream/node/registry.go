// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
)

// NewFakeNetwork starts a fake internet in which registries and clouds have their real host names.
// Containerd uses it as its proxy.
func NewFakeNetwork(t testing.TB) *testcloud.FakeNetwork {
	t.Helper()
	net, err := testcloud.NewFakeNetwork()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(net.Close)
	return net
}

// Registry is a testregistry server with an access log.
type Registry struct {
	*testregistry.Server
	Host string // host in image references

	pusher *authn.Basic
}

// pusherName is the user name for pushing test images.
const pusherName = "node-harness"

// StartRegistry starts a registry. If host is set, the registry is served over HTTPS under that
// name in net. Otherwise it is served over HTTP on a port of 127.0.0.1.
func StartRegistry(t testing.TB, net *testcloud.FakeNetwork, host string, opts testregistry.Options) *Registry {
	t.Helper()
	if host != "" {
		opts.TokenServerURL = "https://" + host
	}
	if len(opts.Rules) > 0 {
		opts.Rules = append(slices.Clone(opts.Rules), testregistry.Rule{User: pusherName, Pull: true, Push: true})
	}
	server, err := testregistry.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	if host != "" {
		net.Handle(host, server)
	}
	password := rand.Text()
	server.SetUser(pusherName, password)
	return &Registry{Server: server, Host: cmp.Or(host, server.Addr()), pusher: &authn.Basic{Username: pusherName, Password: password}}
}

// PushApp pushes an image that runs waiter and returns its reference. Each reference gets a
// different image. Faults that a test injects also apply to the push.
func (r *Registry) PushApp(t testing.TB, repo, tag string) (image string) {
	t.Helper()
	image = r.Host + "/" + repo + ":" + tag
	pushApp(t, image, r.pushOptions()...)
	return image
}

func (r *Registry) pushOptions() []remote.Option {
	return []remote.Option{remote.WithAuth(r.pusher), remote.WithTransport(handlerTransport{r.Server, r.pusher})}
}

func pushApp(t testing.TB, image string, options ...remote.Option) {
	t.Helper()
	content, err := waiterImage(image)
	if err != nil {
		t.Fatal(err)
	}
	pushImage(t, image, content, options...)
}

func pushImage(t testing.TB, image string, content v1.Image, options ...remote.Option) {
	t.Helper()
	ref, err := name.NewTag(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, content, append(options, remote.WithContext(t.Context()))...); err != nil {
		t.Fatalf("pushing %s: %v", image, err)
	}
}

// ManifestRequests returns the requests so far for manifests in a repository, from the access log.
// A pull usually makes two requests: the first is rejected because it has no credentials, and the
// second has credentials.
func (r *Registry) ManifestRequests(repo string) (list []testregistry.Request) {
	for _, req := range r.Requests() {
		if req.User != pusherName && strings.HasPrefix(req.Path, "/v2/"+repo+"/manifests/") {
			list = append(list, req)
		}
	}
	return list
}

// handlerTransport serves requests directly from a handler, for any host name. It always
// sends credentials, so that [Registry.ManifestRequests] can recognize pushes to registries that do
// not require authentication.
type handlerTransport struct {
	handler http.Handler
	auth    *authn.Basic
}

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if r.Header.Get("Authorization") == "" {
		r.SetBasicAuth(t.auth.Username, t.auth.Password)
	}
	w := httptest.NewRecorder()
	t.handler.ServeHTTP(w, r)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}
