// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	_ "crypto/sha256" // reference.ParseNormalizedNamed accepts the digests that are linked in;
	_ "crypto/sha512" // a kubelet links in these
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Repository returns the normalised repository of an image reference, which
// is what keyrings and plugins see of it: "nginx:1.25" is
// "docker.io/library/nginx" (ParseImageName in pkg/util/parsers).
func Repository(image string) (string, error) {
	if repo, ok := plainRepository(image); ok {
		return repo, nil
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("image %q: %w", shorten(image), err)
	}
	return named.Name(), nil
}

// Registry checks a bare registry host and maps the other names of Docker
// Hub to the one that images have.
func Registry(s string) (string, error) {
	switch s {
	case "index.docker.io", "registry-1.docker.io":
		return "docker.io", nil
	}
	if named, err := reference.WithName(s + "/x"); err != nil || reference.Domain(named) != s {
		return "", fmt.Errorf("registry %q: want a host with an optional port, such as registry.example:5000", shorten(s))
	}
	return s, nil
}

// shorten keeps text from outside short enough for an error.
func shorten(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// plainRepository is Repository for references of the common forms, without
// the regular expressions and, but for Docker Hub's short names, without
// allocating. ok is false for the others, whether they are valid or not.
func plainRepository(image string) (repo string, ok bool) {
	// A path of more than 255 bytes, "library/" included, is refused, and so
	// are 64 hex digits, an image's ID.
	if len(image) > 255-len("library/") || len(image) == 64 {
		return "", false
	}
	name, ok := cutTagAndDigest(image)
	if !ok {
		return "", false
	}
	domain, path, slash := strings.Cut(name, "/")
	switch {
	case !slash:
		return "docker.io/library/" + name, plainPath(name)
	case domain == "docker.io" || domain == "index.docker.io":
		return "", false
	case strings.ContainsAny(domain, ".:"):
		return name, plainDomain(domain) && plainPath(path)
	case domain == "localhost":
		return name, plainPath(path)
	default:
		return "docker.io/" + name, plainPath(name)
	}
}

// cutTagAndDigest removes a valid tag and a valid sha256 digest.
func cutTagAndDigest(image string) (name string, ok bool) {
	name, digest, found := strings.Cut(image, "@")
	if found && !plainDigest(digest) {
		return "", false
	}
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		tag := name[i+1:]
		name = name[:i]
		return name, plainTag(tag)
	}
	return name, true
}

func plainDigest(s string) bool {
	hex, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(hex) != 64 {
		return false
	}
	for i := range len(hex) {
		if c := hex[i]; !(isDigit(c) || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}

func plainTag(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLower(c) && !isDigit(c) && !isUpper(c) && c != '_' && (i == 0 || c != '.' && c != '-') {
			return false
		}
	}
	return 0 < len(s) && len(s) <= 128
}

// plainDomain accepts labels of letters, digits and inner hyphens, and a port.
func plainDomain(s string) bool {
	host, port, colon := strings.Cut(s, ":")
	if colon && port == "" {
		return false
	}
	for i := range len(port) {
		if !isDigit(port[i]) {
			return false
		}
	}
	edge := true // at the begin of a label, or after a hyphen
	for i := range len(host) {
		switch c := host[i]; {
		case isLower(c) || isDigit(c) || isUpper(c):
			edge = false
		case c == '-' && i > 0 && host[i-1] != '.':
			edge = true
		case c == '.' && !edge:
			edge = true
		default:
			return false
		}
	}
	return !edge
}

// plainPath accepts components of lower-case letters and digits, joined by
// one dot, underscore or hyphen; rarer separators are left to the library.
func plainPath(s string) bool {
	edge := true
	for i := range len(s) {
		switch c := s[i]; {
		case isLower(c) || isDigit(c):
			edge = false
		case (c == '/' || c == '.' || c == '_' || c == '-') && !edge:
			edge = true
		default:
			return false
		}
	}
	return !edge
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
