// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package orasclient

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/regcred/regcred/keychain"
)

// Docker Hub is "docker.io" in references. oras-go and go-containerregistry use
// different hosts for its API.
const (
	dockerHubAPIHost = "registry-1.docker.io"
	dockerHubName    = name.DefaultRegistry
)

// maxTransports limits how many transports are cached.
const maxTransports = 1000

// transportCache caches a transport for each repository and registry.
type transportCache struct {
	keys *keychain.Keychain

	mu       sync.Mutex
	byTarget map[target]*cachedTransport
	uses     int
}

// target is the repository or registry of a request.
type target struct{ host, repository string } // repository is "" for a registry

type cachedTransport struct {
	transport *keychain.Transport
	used      int // value of uses when last used
}

// forRequest returns the transport for the repository or registry of a request. If the
// request was redirected, req must be the original request.
func (ts *transportCache) forRequest(req *http.Request) (*keychain.Transport, error) {
	repository, err := repositoryOf(req)
	if err != nil {
		return nil, err
	}
	at := target{req.URL.Host, repository}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.uses++
	if k := ts.byTarget[at]; k != nil {
		k.used = ts.uses
		return k.transport, nil
	}
	resource, err := at.resource()
	if err != nil {
		return nil, err
	}
	t, err := ts.keys.Transport(resource)
	if err != nil {
		return nil, err
	}
	ts.evictLeastRecent()
	ts.byTarget[at] = &cachedTransport{t, ts.uses}
	return t, nil
}

// evictLeastRecent removes the least recently used transport if the cache is full.
func (ts *transportCache) evictLeastRecent() {
	if len(ts.byTarget) < maxTransports {
		return
	}
	delete(ts.byTarget, slices.MinFunc(slices.Collect(maps.Keys(ts.byTarget)), func(a, b target) int {
		return cmp.Compare(ts.byTarget[a].used, ts.byTarget[b].used)
	}))
}

// resource returns the repository or registry for go-containerregistry. It parses host and
// repository separately, because go-containerregistry parses "registry/app" as a repository
// on Docker Hub.
func (t target) resource() (authn.Resource, error) {
	host := t.host
	if host == dockerHubAPIHost {
		host = dockerHubName
	}
	registry, err := name.NewRegistry(host)
	if err != nil || t.repository == "" {
		return registry, err
	}
	return registry.Repo(t.repository), nil
}

// repositoryPathPattern finds the repository in a path of the distribution specification.
// If a path is ambiguous, [keychain.Transport] rejects it.
var repositoryPathPattern = regexp.MustCompile(`^/v2/(.+)/(?:manifests|blobs|tags|referrers)/`)

// repositoryOf returns the repository of a request, or "" for a registry-level request. The
// path of an upload may not contain the repository, because the registry chooses the URL.
// For uploads, repositoryOf uses the repository with push access in the scopes that oras-go
// adds to the context.
func repositoryOf(req *http.Request) (string, error) {
	if found := repositoryPathPattern.FindStringSubmatch(req.URL.Path); found != nil {
		return found[1], nil
	}
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return "", nil // a ping or the catalog
	}
	var pushed []string
	for _, scope := range auth.GetScopesForHost(req.Context(), req.URL.Host) {
		repository, actions, ok := parseScope(scope)
		if ok && (slices.Contains(actions, auth.ActionPush) || slices.Contains(actions, "*")) {
			pushed = append(pushed, repository)
		}
	}
	if len(pushed) < 2 {
		return strings.Join(pushed, ""), nil
	}
	return "", fmt.Errorf("%s %s does not name a repository, and the context has several scopes (%q): do not add scopes to the context", req.Method, req.URL.Path, pushed)
}

// parseScope splits a scope such as "repository:team/app:pull,push".
func parseScope(scope string) (repository string, actions []string, ok bool) {
	kind, rest, _ := strings.Cut(scope, ":")
	i := strings.LastIndexByte(rest, ':')
	if kind != "repository" || i < 0 {
		return "", nil, false
	}
	return rest[:i], strings.Split(rest[i+1:], ","), true
}
