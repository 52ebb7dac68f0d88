// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	"slices"
	"strings"
)

// HubKey is the auth key, normalised, under which a kubelet looks for the
// credentials of an image of Docker Hub if no key matches (see [OnHub]).
const HubKey = "index.docker.io"

// Key is one key of an answer's auth, or of a docker config file, compiled by
// [Keys]. The zero value matches nothing.
type Key struct {
	Pattern        // normalised: its text is what a kubelet sorts and compares
	Raw     string // as it was given
}

// Keys normalises and compiles auth keys and puts them in the order in which
// a kubelet walks them. Normalised, a key has neither scheme, user, query nor
// fragment; its path is decoded and without /v1 or /v2 at the beginning, and
// one of a slash alone is none. The order is the reverse byte order of that, so
// that a key comes before its own beginnings, and a * behind letters and digits
// (BasicDockerKeyring.Add in pkg/credentialprovider/keyring.go). Keys that do
// not parse are left out, each alone. Two keys that become the same come in
// the order of their text, where the kubelet's order is random.
func Keys(raw []string) []Key {
	keys := make([]Key, 0, len(raw))
	for _, s := range raw {
		if p, ok := normalise(s); ok {
			keys = append(keys, Key{p, s})
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		if c := strings.Compare(b.raw, a.raw); c != 0 {
			return c
		}
		return strings.Compare(a.Raw, b.Raw)
	})
	return keys
}

// normalise removes from an auth key what a kubelet does not look at, and
// compiles it.
func normalise(key string) (Pattern, bool) {
	rest, ok := strings.CutPrefix(key, "https://")
	if !ok {
		rest = strings.TrimPrefix(key, "http://")
	}
	hostport, path, err := splitURL(rest, strings.IndexByte)
	if err != nil {
		return Pattern{}, false
	}
	// Docker takes /v1/ and /v2/ for the host.
	if strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v2/") {
		path = path[len("/v1"):]
	}
	if path == "/" {
		path = ""
	}
	// kubelet: the key is parsed again when it is matched, so that a path is
	// decoded twice, and a key may parse here and never match.
	p, err := Parse(hostport + path)
	return p, err == nil
}

// Select returns those of the keys of one answer whose credentials a kubelet
// takes for a normalised [Repository] or a bare [Registry], in the order in
// which it tries them and as they were given: the [Keys] that match, or else,
// for what is [OnHub], those that are [HubKey]. It is nil if there are none or
// the repository does not parse.
func Select(keys []string, repository string) []string {
	at, err := ParseLocation(repository)
	if err != nil {
		return nil
	}
	compiled := Keys(keys)
	selected := pick(compiled, func(k Key) bool { return k.Matches(at) })
	if len(selected) == 0 && OnHub(repository) {
		selected = pick(compiled, func(k Key) bool { return k.raw == HubKey })
	}
	return selected
}

func pick(keys []Key, wanted func(Key) bool) (raw []string) {
	for _, k := range keys {
		if wanted(k) {
			raw = append(raw, k.Raw)
		}
	}
	return raw
}

// OnHub reports whether the credentials of [HubKey] are used for a normalised
// repository, or a bare registry, if no key matches.
func OnHub(repository string) bool {
	host, _, image := strings.Cut(repository, "/")
	if host == "docker.io" || host == HubKey {
		return true
	}
	// kubelet: a host without dot and port is taken for a namespace of Docker
	// Hub, although after normalisation it is a host (localhost/x). A bare
	// registry is a host in any case.
	return image && host != "" && !strings.ContainsAny(host, ".:")
}
