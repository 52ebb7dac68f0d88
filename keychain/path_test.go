// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

func TestCheckPath(t *testing.T) {
	for _, tt := range []struct {
		repo, path string
		ok         bool
	}{
		{"team/app", "/v2/team/app/manifests/v1", true},
		{"team/app", "/v2/team/app/manifests/sha256:abc", true},
		{"team/app", "/v2/team/app/manifests/tags", true},
		{"team/app", "/v2/team/app/manifests/manifests", true},
		{"team/app", "/v2/team/app/blobs/sha256:abc", true},
		{"team/app", "/v2/team/app/blobs/uploads", true},
		{"team/app", "/v2/team/app/blobs/uploads/", true},
		{"team/app", "/v2/team/app/blobs/uploads/4a1b/5c?_state=x", true},
		{"team/app", "/v2/team/app/tags/list", true},
		{"team/app", "/v2/team/app/referrers/sha256:abc", true},
		{"team/app", "/v2/", true},
		{"team/app", "/v2", true},
		{"team/app", "/v2/_catalog", true},
		{"team/app", "/artifacts-uploads/namespaces/x/repositories/y/uploads/AJ%3D%3D", true},
		{"team/manifests/x", "/v2/team/manifests/x/manifests/v1", true},
		{"team/blobs", "/v2/team/blobs/blobs/sha256:abc", true},
		{"tags/list", "/v2/tags/list/tags/list", true},

		{"team/app", "/v2/team/app2/manifests/v1", false},
		{"team/app", "/v2/team/manifests/v1", false},
		{"team/app", "/v2/team/app/other/manifests/v1", false},
		{"team/app", "/v2/other/unknown", false},
		{"team/app", "/v2/other", false},
		{"team/app", "/v2/team/app/../other/manifests/v1", false},
		{"team/app", "/v2/other/../team/app/manifests/v1", false},
		{"team/app", "/v2/team/app/manifests/../../other/manifests/v1", false},
		{"team/app", "/v2/team/app/manifests/..%2f..%2fother%2fmanifests%2fv1", false},
		{"team/app", "/v2/team/app/manifests/%2e%2e/%2e%2e/other/manifests/v1", false},
		{"team/app", "/v2/team/app/manifests/%252e%252e%252f%252e%252e%252fother%252fmanifests%252fv1", false},
		{"team/app", `/v2/team/app/manifests/..\..\other\manifests\v1`, false},
		{"team/app", "/v2/team/app/%6danifests/v1", false},
		{"team/app", "/v2/other/%6danifests/v1", false},
		{"team/app", "/v2/team%2Fapp/manifests/v1", false},
		{"team/app", "/v2//team/app/manifests/v1", false},
		{"team/app", "//v2/other/manifests/v1", false},
		{"team/app", "/x/../v2/other/manifests/v1", false},
		{"team/app", "/%76%32/other/manifests/v1", false},
		{"team/app", "/v2/other/blobs/uploads/x/../../../../team/app/manifests/v1", false},
		{"team/app", "/v2/team/app/blobs/uploads/x/manifests/v1", false},
		{"team/app", "/v2/_catalog/../other/manifests/v1", false},
		{"team/app", "/%" + strings.Repeat("25", 40) + "2f", false},
		{"", "/v2/", true},
		{"", "/v2/_catalog", true},
		{"", "/v2/team/app/tags/list", false},
		{"", "/v2/team", false},
	} {
		u, err := url.Parse("https://registry.example" + tt.path)
		if err != nil {
			u = &url.URL{Path: tt.path}
		}
		if err := checkPath(u, tt.repo); (err == nil) != tt.ok {
			t.Errorf("%q for %q: got %v", tt.path, tt.repo, err)
		}
	}
}

// TestPathsAtRegistry pulls a tag and a repository that are named like endpoints. It also verifies
// that a path is not sent if a server may resolve it to another repository.
func TestPathsAtRegistry(t *testing.T) {
	f, _ := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, nil)
	ref := parseReference(t, f.host()+"/team/blobs/x:tags")
	must.Get(f.registry.Push("team/blobs/x", "tags", testregistry.Image{}))(t)
	keys := New(newGoodKeyring(t, f.host()), Options{})
	if err := pullLayers(t.Context(), ref, mustTransport(t, keys, ref.Context()).Wrapper()); err != nil {
		t.Error(err)
	}
	before := len(f.recordedRequests(""))
	tr := mustTransport(t, keys, parseReference(t, f.host()+"/team/app").Context())
	for _, p := range []string{"/v2/team%2Fapp/manifests/v1", "/v2/team/app/../db/manifests/v1", "/v2//team/app/manifests/v1"} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", f.URL+p, nil)
		if _, err := tr.RoundTrip(req); err == nil {
			t.Errorf("%s was sent", p)
		}
	}
	if n := len(f.recordedRequests("")) - before; n > 0 {
		t.Errorf("%d requests", n)
	}
}

// FuzzPath verifies that an accepted path belongs to the repository or to none, even if a server
// decodes escapes and resolves dots in any order.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"/v2/team/app/manifests/v1", "/v2/team/app/../db/manifests/x", "/v2/team%2Fapp/manifests/x", "//v2/db/blobs/uploads/",
		"/v2/team/app/manifests/..%2f..%2fdb/manifests/x", "/v2/_x/%2e%2e/db/tags/list", "/v2/db/%6danifests/x", "/v2/team/app/blobs/uploads/a/b",
	} {
		f.Add("team/app", seed)
		f.Add("db", seed)
		f.Add("", seed)
	}
	servers := [][]func(string) string{{}, {unescapePath}, {resolveDots}, {unescapePath, resolveDots}, {resolveDots, unescapePath}, {unescapePath, resolveDots, unescapePath, resolveDots}, {unescapePath, unescapePath, resolveDots}}
	f.Fuzz(func(t *testing.T, repo, p string) {
		u, err := url.Parse("https://registry.example/" + strings.TrimPrefix(p, "/"))
		if err != nil || checkPath(u, repo) != nil {
			return
		}
		for i, server := range servers {
			read := u.EscapedPath()
			for _, step := range server {
				read = step(read)
			}
			if got, ok := naiveRepository(read); ok && got != repo {
				t.Errorf("server %d reads %q as of %q, and it was let through for %q", i, p, got, repo)
			}
		}
	})
}

func unescapePath(p string) string {
	if d, err := url.PathUnescape(p); err == nil {
		return d
	}
	return p
}

func resolveDots(p string) string { return path.Clean("/" + p) }

// naiveRepository returns the repository of a path as a simple server determines it: the part
// before the last endpoint.
func naiveRepository(p string) (repo string, ok bool) {
	rest, ok := strings.CutPrefix(p, "/v2/")
	if !ok {
		return "", false
	}
	if repo, ok := strings.CutSuffix(rest, "/tags/list"); ok {
		return repo, true
	}
	dir, _ := path.Split(rest)
	for _, end := range []string{"/manifests/", "/blobs/", "/referrers/", "/blobs/uploads/"} {
		if repo, ok := strings.CutSuffix(dir, end); ok && repo != "" {
			return repo, true
		}
	}
	return "", false
}
