// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"maps"
	"slices"
	"strings"

	"github.com/regcred/regcred/match"
)

// An [OutOfTree] response is a single credential without a key. In the kubelet's protocol, each
// credential has an auth key that determines for which images it is used. The functions in this
// file convert between the two formats.

// authKeyForImage returns an auth key that matches an image and as few other images as
// possible.
func authKeyForImage(image string) string {
	host, rest, hasPath := strings.Cut(image, "/")
	// kubelet: it parses a bracketed address without a port as a character class, so
	// only a * matches it.
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = "*"
	}
	if !hasPath {
		return host
	}
	// kubelet: it removes /v1 or /v2 at the start of a key's path.
	if strings.HasPrefix(rest, "v1/") || strings.HasPrefix(rest, "v2/") {
		rest = "v2/" + rest
	}
	return host + "/" + rest
}

// firstCredential returns the credential that a kubelet would try first for an image.
func firstCredential(image string, auth map[string]AuthConfig) (AuthConfig, bool) {
	keys := slices.Collect(maps.Keys(auth))
	selected := match.Select(keys, image)
	// The kubelet sends normalized images. But in an image that a user types, the registry may
	// be missing, which means Docker Hub.
	if repository, err := match.Repository(image); err == nil && len(selected) == 0 {
		selected = match.Select(keys, repository)
	}
	if len(selected) == 0 {
		return AuthConfig{}, false
	}
	return auth[selected[0]], true
}
