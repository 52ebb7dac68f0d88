// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"cmp"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/hostpattern"
)

// hubServer is Docker Hub's key in docker's files and helpers.
const hubServer = "https://index.docker.io/v1/"

const hubHostName = "docker.io"

// Helper returns the name of the helper for a registry (host[:port]), and the server to pass to
// [Helper.Get]. The name is "" if Auths is used. As in docker, Auths is ignored for a registry that
// has a helper. An entry of CredHelpers with an empty name selects Auths.
//
// Keys of CredHelpers match exactly. The key for Docker Hub is https://index.docker.io/v1/ in
// docker's files and docker.io in podman's. The server is the key that was found.
func (f *File) Helper(registry string) (name, server string) {
	servers := []string{registry}
	if normalizeHubHost(registry) == hubHostName {
		servers = []string{hubServer, hubHostName, "index.docker.io"}
	}
	for _, server := range servers {
		if name, ok := f.CredHelpers[server]; ok {
			return name, server
		}
	}
	return f.CredsStore, servers[0]
}

// Match is an entry of Auths that applies to an image.
type Match struct {
	Key   string // as in the file
	Scope string // the images to which the entry applies; see [Scope]
	Auth  Auth
}

// Find returns the entries of Auths that apply to a normalized repository such as
// "registry.example/team/app", the most specific first. As in podman, the path of a key matches
// whole segments. For example, "registry.example/team" does not apply to
// "registry.example/team-b/app". If two keys have the same scope, the key that equals the scope
// comes first.
//
// As in the kubelet, a * in a key's host matches any text within one label.
func (f *File) Find(repository string) []Match {
	host, path, _ := strings.Cut(repository, "/")
	host = normalizeHubHost(host)
	var matches []Match
	for key, auth := range f.Auths {
		scope := Scope(key)
		wantHost, wantPath, _ := strings.Cut(scope, "/")
		if hostpattern.Match(wantHost, host) && isPathPrefix(wantPath, path) {
			matches = append(matches, Match{key, scope, auth})
		}
	}
	slices.SortFunc(matches, func(a, b Match) int {
		return cmp.Or(
			cmp.Compare(strings.Count(b.Scope, "/"), strings.Count(a.Scope, "/")),
			cmp.Compare(strings.Count(a.Scope, "*"), strings.Count(b.Scope, "*")),
			cmp.Compare(b.Scope, a.Scope),
			compareTrueFirst(a.Key == a.Scope, b.Key == b.Scope),
			cmp.Compare(a.Key, b.Key))
	})
	return matches
}

// HasPaths reports whether Auths has keys with a path for a registry, so that its
// images may have different credentials.
func (f *File) HasPaths(registry string) bool {
	for key := range f.Auths {
		host, path, _ := strings.Cut(Scope(key), "/")
		if path != "" && hostpattern.Match(host, normalizeHubHost(registry)) {
			return true
		}
	}
	return false
}

// Scope returns the registry or path to which a key of auths applies, as host[:port][/path]. This
// is the key without its scheme, trailing slashes, and the path /v1/ or /v2/ of an API address. All
// hosts of Docker Hub become docker.io.
//
// A key with a scheme keeps its path. Docker and podman ignore this path, and so use the credential
// for the whole registry.
func Scope(key string) string {
	bare := key
	for _, scheme := range []string{"https://", "http://"} {
		bare = strings.TrimPrefix(bare, scheme)
	}
	host, path, _ := strings.Cut(bare, "/")
	if path == "v1/" || path == "v2/" || bare != key && (path == "v1" || path == "v2") {
		path = ""
	}
	host, path = normalizeHubHost(host), strings.TrimRight(path, "/")
	if path == "" {
		return host
	}
	return host + "/" + path
}

// normalizeHubHost returns docker.io for all hosts of Docker Hub.
func normalizeHubHost(host string) string {
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		return hubHostName
	}
	return host
}

// isPathPrefix reports whether a path equals prefix or is below it.
func isPathPrefix(prefix, path string) bool {
	return prefix == "" || path == prefix || strings.HasPrefix(path, prefix+"/")
}

func compareTrueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
