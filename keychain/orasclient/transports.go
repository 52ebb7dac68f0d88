// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package orasclient

import (
	"fmt"
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

// Docker Hub is "docker.io" in a reference. Oras-go asks it by the one name, and
// go-containerregistry by the other.
const (
	hubAPI = "registry-1.docker.io"
	hub    = name.DefaultRegistry
)

// mostKept bounds how many transports are kept.
const mostKept = 1000

// transports keeps one for each repository, and for each registry as such.
type transports struct {
	keys *keychain.Keychain

	mu   sync.Mutex
	kept map[target]*kept
	uses int
}

// target is what a request is about.
type target struct{ host, repository string } // of a registry as such the latter is ""

type kept struct {
	transport *keychain.Transport
	used      int // when, in uses
}

// of returns that for a request, which has not been redirected.
func (ts *transports) of(req *http.Request) (*keychain.Transport, error) {
	repository, err := repositoryOf(req)
	if err != nil {
		return nil, err
	}
	at := target{req.URL.Host, repository}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.uses++
	if k := ts.kept[at]; k != nil {
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
	ts.makeRoom()
	ts.kept[at] = &kept{t, ts.uses}
	return t, nil
}

// makeRoom drops the one that was not used for longest.
func (ts *transports) makeRoom() {
	if len(ts.kept) < mostKept {
		return
	}
	var oldest target
	used := ts.uses
	for at, k := range ts.kept {
		if k.used < used {
			oldest, used = at, k.used
		}
	}
	delete(ts.kept, oldest)
}

// resource is the target's. It is not parsed from one text: of "registry/app"
// that would make a repository of Docker Hub.
func (t target) resource() (authn.Resource, error) {
	host := t.host
	if host == hubAPI {
		host = hub
	}
	registry, err := name.NewRegistry(host)
	if err != nil || t.repository == "" {
		return registry, err
	}
	return registry.Repo(t.repository), nil
}

// inPath finds the repository of a request, as the distribution specification
// has its paths. Whether a path can be read otherwise is the Transport's to say.
var inPath = regexp.MustCompile(`^/v2/(.+)/(?:manifests|blobs|tags|referrers)/`)

// repositoryOf returns the repository that a request is for, or "". The address
// of an upload is the registry's choice and may not name it; then it is the one
// that oras-go's hints for a token say something is pushed to.
func repositoryOf(req *http.Request) (string, error) {
	if found := inPath.FindStringSubmatch(req.URL.Path); found != nil {
		return found[1], nil
	}
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return "", nil // a ping, the catalog
	}
	var pushed []string
	for _, scope := range auth.GetScopesForHost(req.Context(), req.URL.Host) {
		repository, actions, ok := cutScope(scope)
		if ok && (slices.Contains(actions, auth.ActionPush) || slices.Contains(actions, "*")) {
			pushed = append(pushed, repository)
		}
	}
	switch len(pushed) {
	case 0:
		return "", nil
	case 1:
		return pushed[0], nil
	}
	return "", fmt.Errorf("%s %s does not name a repository, and the context has several scopes (%q): do not add scopes to the context", req.Method, req.URL.Path, pushed)
}

// cutScope takes "repository:team/app:pull,push" apart.
func cutScope(scope string) (repository string, actions []string, ok bool) {
	kind, rest, _ := strings.Cut(scope, ":")
	i := strings.LastIndexByte(rest, ':')
	if kind != "repository" || i < 0 {
		return "", nil, false
	}
	return rest[:i], strings.Split(rest[i+1:], ","), true
}
