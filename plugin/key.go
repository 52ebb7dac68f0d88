// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"maps"
	"slices"
	"strings"

	"github.com/regcred/regcred/match"
)

// An [OutOfTree] response is one credential. In the kubelet's protocol, a key of
// auth selects the images of a credential. The functions in this file convert
// between the two.

// imageKey returns a key of auth that matches an image, and as few other images
// as possible.
func imageKey(image string) string {
	host, rest, hasPath := strings.Cut(image, "/")
	// kubelet: an address in brackets without a port is parsed as a character
	// class, so only a * matches it.
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = "*"
	}
	if !hasPath {
		return host
	}
	// kubelet: a /v1 or /v2 at the beginning of a key's path is removed.
	if strings.HasPrefix(rest, "v1/") || strings.HasPrefix(rest, "v2/") {
		rest = "v2/" + rest
	}
	return host + "/" + rest
}

// firstFor returns the credential that a kubelet would try first for an image.
func firstFor(image string, auth map[string]AuthConfig) (AuthConfig, bool) {
	keys := slices.Collect(maps.Keys(auth))
	selected := match.Select(keys, image)
	// A kubelet sends normalized images. In an image typed by hand, the registry
	// may be missing; it is then Docker Hub.
	if repository, err := match.Repository(image); err == nil && len(selected) == 0 {
		selected = match.Select(keys, repository)
	}
	if len(selected) == 0 {
		return AuthConfig{}, false
	}
	return auth[selected[0]], true
}
