// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// An answer of [OutOfTree] is one credential, and in today's protocol the keys
// of auth say for which images one is. The code in this file goes from the one
// to the other, in both directions. The matcher that keyrings use is
// match.Pattern; a test holds this one against it.

// imageKey returns a key of auth that matches an image, and otherwise as few
// as a key can.
func imageKey(image string) string {
	host, rest, hasPath := strings.Cut(image, "/")
	// kubelet: an address in brackets without a port is taken for a character
	// class, and only a * matches it.
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = "*"
	}
	if !hasPath {
		return host
	}
	// kubelet: a key loses a /v1 or /v2 at the beginning of its path.
	if strings.HasPrefix(rest, "v1/") || strings.HasPrefix(rest, "v2/") {
		rest = "v2/" + rest
	}
	return host + "/" + rest
}

// hubKey is the key under which a kubelet looks for the credential of an image
// of Docker Hub if no key matches.
const hubKey = "index.docker.io"

// firstFor returns the credential of an answer that a kubelet would try first
// for an image: that of the last key, in byte order, of those that match
// (BasicDockerKeyring in pkg/credentialprovider/keyring.go).
func firstFor(image string, auth map[string]AuthConfig) (AuthConfig, bool) {
	type entry struct{ key, raw string }
	var entries []entry
	for raw := range auth {
		if key, ok := bareKey(raw); ok {
			entries = append(entries, entry{key, raw})
		}
	}
	// Of keys that become the same, a kubelet takes any.
	slices.SortFunc(entries, func(a, b entry) int {
		if c := strings.Compare(b.key, a.key); c != 0 {
			return c
		}
		return strings.Compare(a.raw, b.raw)
	})
	i := slices.IndexFunc(entries, func(e entry) bool { return matches(e.key, image) })
	if i < 0 && onHub(image) {
		i = slices.IndexFunc(entries, func(e entry) bool { return e.key == hubKey })
	}
	if i < 0 {
		return AuthConfig{}, false
	}
	return auth[entries[i].raw], true
}

// bareKey is a key as it is matched: without a scheme and the path of the
// registry's API. A key that is no URL is dropped.
func bareKey(key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, "https://")
	if !ok {
		rest = strings.TrimPrefix(key, "http://")
	}
	u, err := url.Parse("https://" + rest)
	if err != nil {
		return "", false
	}
	bare := u.Path
	if strings.HasPrefix(bare, "/v1/") || strings.HasPrefix(bare, "/v2/") {
		bare = bare[len("/v1"):]
	}
	if bare == "/" {
		bare = ""
	}
	return u.Host + bare, true
}

// matches reports whether a bare key matches an image.
func matches(key, image string) bool {
	pattern, err := url.Parse("https://" + key)
	if err != nil {
		return false
	}
	target, err := url.Parse("https://" + image)
	if err != nil {
		return false
	}
	want, wantPort := splitHost(pattern)
	got, port := splitHost(target)
	// kubelet: a plain string prefix, so "host/team" matches "host/team-b/app".
	if port != wantPort || len(want) != len(got) || !strings.HasPrefix(target.Path, pattern.Path) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], got[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// splitHost returns the labels of a host, and its port.
func splitHost(u *url.URL) (labels []string, port string) {
	host := u.Host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = u.Hostname(), u.Port()
	}
	return strings.Split(host, "."), port
}

// onHub reports whether an image is one of Docker Hub, as a kubelet tells.
func onHub(image string) bool {
	host, _, hasPath := strings.Cut(image, "/")
	switch {
	case host == "":
		return false
	case !hasPath, host == "docker.io", host == "index.docker.io":
		return true
	}
	return !strings.ContainsAny(host, ".:")
}
