// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"cmp"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/hostpattern"
)

// hubServer is what docker calls Docker Hub, in files and to helpers.
const hubServer = "https://index.docker.io/v1/"

// hub is the host of Docker Hub in the names of images.
const hub = "docker.io"

// Helper returns the helper that decides about a registry (host[:port]), and
// the server URL to ask it for; "" if there is none and the auths decide. As
// in docker, a helper decides alone: the auths are then not looked at. An
// entry of CredHelpers without a name puts a registry back to the auths.
//
// CredHelpers has exact keys. The registry of docker.io is known there as
// https://index.docker.io/v1/ to docker, and as docker.io to podman; a helper
// is asked for it by the key under which it is found.
func (f *File) Helper(registry string) (name, server string) {
	servers := []string{registry}
	if hubHost(registry) == hub {
		servers = []string{hubServer, hub, "index.docker.io"}
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
	Key   string // as written in the file
	Scope string // what it applies to; see [Scope]
	Auth  Auth
}

// Find returns the entries of Auths that apply to a normalised repository such
// as "registry.example/team/app", the most specific first. The path of a key
// covers whole segments, as in podman: "registry.example/team" does not apply
// to "registry.example/team-b/app". Of two keys for the same scope, the one
// that is written like it comes first.
//
// As in the kubelet, a * in a key's host stands for any text within one label.
func (f *File) Find(repository string) []Match {
	host, path, _ := strings.Cut(repository, "/")
	host = hubHost(host)
	var matches []Match
	for key, auth := range f.Auths {
		scope := Scope(key)
		wantHost, wantPath, _ := strings.Cut(scope, "/")
		if hostpattern.Match(wantHost, host) && covers(wantPath, path) {
			matches = append(matches, Match{key, scope, auth})
		}
	}
	slices.SortFunc(matches, func(a, b Match) int {
		return cmp.Or(
			cmp.Compare(strings.Count(b.Scope, "/"), strings.Count(a.Scope, "/")),
			cmp.Compare(strings.Count(a.Scope, "*"), strings.Count(b.Scope, "*")),
			cmp.Compare(b.Scope, a.Scope),
			preferTrue(a.Key == a.Scope, b.Key == b.Scope),
			cmp.Compare(a.Key, b.Key))
	})
	return matches
}

// HasPaths reports whether Auths has entries for parts of a registry, so that
// two of its images may have different credentials.
func (f *File) HasPaths(registry string) bool {
	for key := range f.Auths {
		host, path, _ := strings.Cut(Scope(key), "/")
		if path != "" && hostpattern.Match(host, hubHost(registry)) {
			return true
		}
	}
	return false
}

// Scope returns what a key of auths applies to, as host[:port][/path]. It is
// the key without scheme and without slashes at its end. The path of an old
// API address, /v1/ or /v2/, is none. Docker Hub is docker.io by any name.
//
// A key with a scheme keeps its path, which docker and podman ignore: what is
// written for a part of a registry is not used for all of it.
func Scope(key string) string {
	bare := key
	for _, scheme := range []string{"https://", "http://"} {
		bare = strings.TrimPrefix(bare, scheme)
	}
	host, path, _ := strings.Cut(bare, "/")
	if path == "v1/" || path == "v2/" || bare != key && (path == "v1" || path == "v2") {
		path = ""
	}
	host, path = hubHost(host), strings.TrimRight(path, "/")
	if path == "" {
		return host
	}
	return host + "/" + path
}

// hubHost returns docker.io for each of the names of Docker Hub's host.
func hubHost(host string) string {
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		return hub
	}
	return host
}

// covers reports whether a path is prefix, or lies below it.
func covers(prefix, path string) bool {
	return prefix == "" || path == prefix || strings.HasPrefix(path, prefix+"/")
}

func preferTrue(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
