// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"strings"

	"github.com/regcred/regcred/match"
)

// normal returns an image as a kubelet sends it to a plugin. Invalid images are
// unchanged.
func normal(image string) string {
	if repository, err := match.Repository(image); err == nil {
		return repository
	}
	return image
}

// registry returns the host and port of an image.
func registry(image string) string {
	host, _, _ := strings.Cut(image, "/")
	return host
}

// inRegistry returns an image with the same path in another registry.
func inRegistry(image, host string) string {
	_, path, _ := strings.Cut(image, "/")
	return host + "/" + path
}

// lookalike returns the image in a registry whose name begins with the image's
// registry. The domain is reserved (RFC 6761), so it has no owner.
func lookalike(image string) string {
	host, port, _ := strings.Cut(registry(image), ":")
	if host += ".conformance.invalid"; port != "" {
		host += ":" + port
	}
	return inRegistry(image, host)
}
