// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"strings"

	"github.com/regcred/regcred/match"
)

// normal is an image as a kubelet names it to a plugin. What is no image is
// left as it is: the plugin decides.
func normal(image string) string {
	if repository, err := match.Repository(image); err == nil {
		return repository
	}
	return image
}

// registry is the host and port of an image.
func registry(image string) string {
	host, _, _ := strings.Cut(image, "/")
	return host
}

// inRegistry is an image of the same path in another registry.
func inRegistry(image, host string) string {
	_, path, _ := strings.Cut(image, "/")
	return host + "/" + path
}

// lookalike is the image in a registry whose name begins like that of its own.
// Nobody can own that one (RFC 6761).
func lookalike(image string) string {
	host, port, _ := strings.Cut(registry(image), ":")
	if host += ".conformance.invalid"; port != "" {
		host += ":" + port
	}
	return inRegistry(image, host)
}
