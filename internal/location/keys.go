// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package location

import (
	"slices"
	"strings"
)

// HubKey is the normalized auth key that the kubelet tries for a Docker Hub image if no
// key matches (see [UsesHubKey]).
const HubKey = "index.docker.io"

// Key is a compiled auth key of a plugin's response or a docker config file.
// The zero value matches nothing.
type Key struct {
	Pattern        // normalized; the kubelet sorts and compares its text
	Raw     string // as given
}

// ParseKeys normalises and compiles auth keys and sorts them in the kubelet's order
// (BasicDockerKeyring.Add in pkg/credentialprovider/keyring.go):
//
//   - Normalising removes the scheme, user, query and fragment, decodes the path,
//     removes a leading /v1 or /v2, and removes a path that is only a slash.
//   - The order is reverse byte order of the normalised keys, so a key precedes
//     its own prefixes, and letters and digits precede a *.
//   - Keys that do not parse are dropped.
//   - Keys that normalise to the same text are sorted by Raw. The kubelet's order
//     is random there.
func ParseKeys(raw []string) []Key {
	keys := make([]Key, 0, len(raw))
	for _, s := range raw {
		if p, ok := normalizeKey(s); ok {
			keys = append(keys, Key{p, s})
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		if c := strings.Compare(b.text, a.text); c != 0 {
			return c
		}
		return strings.Compare(a.Raw, b.Raw)
	})
	return keys
}

// normalizeKey compiles an auth key without the parts that the kubelet ignores.
func normalizeKey(key string) (Pattern, bool) {
	rest, ok := strings.CutPrefix(key, "https://")
	if !ok {
		rest = strings.TrimPrefix(key, "http://")
	}
	hostport, path, err := splitURL(rest, strings.IndexByte)
	if err != nil {
		return Pattern{}, false
	}
	// Docker treats HOST/v1/ and HOST/v2/ as HOST.
	if strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v2/") {
		path = path[len("/v1"):]
	}
	if path == "/" {
		path = ""
	}
	// kubelet: parses the key again when it is matched, so its path is decoded twice,
	// and a key that can be parsed here may never match.
	p, err := ParsePattern(hostport + path)
	return p, err == nil
}

// Select returns the keys whose credentials the kubelet uses for a normalized repository or
// a bare registry, as given and in the order of [ParseKeys]. If no key matches and
// [UsesHubKey] is true, it returns all keys that equal [HubKey].
func Select(keys []string, repository string) []string {
	at, err := Parse(repository)
	if err != nil {
		return nil
	}
	compiled := ParseKeys(keys)
	selected := rawKeys(compiled, func(k Key) bool { return k.Match(at) })
	if len(selected) == 0 && UsesHubKey(repository) {
		selected = rawKeys(compiled, func(k Key) bool { return k.text == HubKey })
	}
	return selected
}

func rawKeys(keys []Key, wanted func(Key) bool) (raw []string) {
	for _, k := range keys {
		if wanted(k) {
			raw = append(raw, k.Raw)
		}
	}
	return raw
}

// UsesHubKey reports whether the kubelet falls back to [HubKey] for a normalized
// repository or a bare registry.
func UsesHubKey(repository string) bool {
	host, _, image := strings.Cut(repository, "/")
	if host == "docker.io" || host == HubKey {
		return true
	}
	// kubelet: treats a host without a dot and a port as a Docker Hub namespace,
	// although after normalization it is a host (localhost/x). A bare registry is
	// always a host.
	return image && host != "" && !strings.ContainsAny(host, ".:")
}
