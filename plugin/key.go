// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"maps"
	"slices"
	"strings"

	"github.com/regcred/regcred/match"
)

// An answer of [OutOfTree] is one credential, and in today's protocol the keys
// of auth say for which images one is. The code in this file goes from the one
// to the other, in both directions.

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

// firstFor returns the credential of an answer that a kubelet would try first
// for an image.
func firstFor(image string, auth map[string]AuthConfig) (AuthConfig, bool) {
	keys := slices.Collect(maps.Keys(auth))
	taken := match.Select(keys, image)
	// A kubelet sends images normalised. One typed by hand may lack its
	// registry, which is then Docker Hub.
	if repository, err := match.Repository(image); err == nil && len(taken) == 0 {
		taken = match.Select(keys, repository)
	}
	if len(taken) == 0 {
		return AuthConfig{}, false
	}
	return auth[taken[0]], true
}
