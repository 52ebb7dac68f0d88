// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/regcred/regcred/internal/excerpt"
)

// dockerHub is the registry of image names without a host.
const dockerHub = "docker.io"

// Repository returns the normalized repository of an image reference, without tag and digest.
// Keyrings and plugins use this name. For example, "nginx:1.25" becomes
// "docker.io/library/nginx".
//
// It accepts the same references as the kubelet, with the same result (ParseImageName in
// pkg/util/parsers, which calls ParseNormalizedNamed of github.com/distribution/reference
// v0.6.0). The error contains the image without user info, truncated to 300 bytes. Repository
// does not allocate for complete names, such as all names with a registry other than Docker
// Hub.
func Repository(image string) (string, error) {
	repository, err := parseReference(image)
	if err != nil {
		return "", fmt.Errorf("image %q: %w", sanitizeForError(image), err)
	}
	return repository, nil
}

// Registry checks a registry of the form host[:port] and returns the host as it appears in
// image names: docker.io for index.docker.io and registry-1.docker.io, and any other host
// unchanged. ([Repository] replaces only index.docker.io, as the kubelet does.) It rejects URLs
// and hosts with a path. The error contains at most 300 bytes of the host.
func Registry(host string) (string, error) {
	switch {
	case host == "index.docker.io" || host == "registry-1.docker.io":
		return dockerHub, nil
	case !isHostWithPort(host):
		return "", fmt.Errorf("registry %q: must be host[:port], such as registry.example:5000", sanitizeForError(host))
	}
	return host, nil
}

// sanitizeForError truncates untrusted text for use in an error, and removes user info from
// URLs.
func sanitizeForError(s string) string {
	const most = 300
	s = excerpt.RedactAddress(s)
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

func parseReference(image string) (repository string, err error) {
	name, digest, hasDigest := strings.Cut(image, "@")
	name, tag, hasTag := splitTag(name)
	registry, path := splitName(name)
	namespace := ""
	if registry == dockerHub && !strings.Contains(path, "/") {
		namespace = "library/"
	}
	switch {
	case !isRepositoryPath(path):
		return "", explainInvalidName(name, path)
	case len(image) == 64 && isHex(image):
		return "", newFormatError("a string of 64 hex digits is an image ID, not an image name")
	case len(namespace)+len(path) > 255:
		return "", newFormatError("the name after the registry is longer than 255 characters")
	case hasTag && !isTag(tag):
		return "", newFormatError("a tag can contain only letters, digits, _, - and ., must not start with - or ., and must not exceed 128 characters")
	case hasDigest && !isDigest(digest):
		return "", newFormatError("a digest must be sha256:, sha384: or sha512: followed by 64, 96 or 128 lowercase hex digits")
	case registry != dockerHub || namespace == "" && strings.HasPrefix(name, dockerHub+"/"):
		return name, nil
	}
	return dockerHub + "/" + namespace + path, nil
}

// splitTag splits a name into repository and tag. A colon before the last slash starts a port,
// not a tag.
func splitTag(s string) (name, tag string, found bool) {
	last := strings.LastIndexByte(s, '/') + 1
	if i := strings.IndexByte(s[last:], ':'); i >= 0 {
		return s[:last+i], s[last+i+1:], true
	}
	return s, "", false
}

// splitName splits a name into registry and path. The default registry is Docker Hub.
func splitName(name string) (registry, path string) {
	first, rest, found := strings.Cut(name, "/")
	switch {
	case !found, first != "localhost" && !strings.ContainsAny(first, ".:") && strings.ToLower(first) == first:
		return dockerHub, name
	case first == "index.docker.io":
		return dockerHub, rest
	case !isHostWithPort(first):
		// kubelet: "a_b.c/d" does not start with a valid host but is a valid path, so
		// it becomes an image without a registry.
		return "", name
	}
	return first, rest
}

// isHostWithPort reports whether s is a domain or a bracketed IPv6 address, with an optional
// port.
func isHostWithPort(s string) bool {
	if address, ok := strings.CutPrefix(s, "["); ok {
		address, port, ok := strings.Cut(address, "]")
		// kubelet: it does not check that the text in brackets is a valid address.
		return ok && address != "" && strings.Trim(address, "0123456789abcdefABCDEF:") == "" && (port == "" || isPort(port))
	}
	if i := strings.IndexByte(s, ':'); i >= 0 {
		return isDomain(s[:i]) && isPort(s[i:])
	}
	return isDomain(s)
}

// isPort reports whether s is a colon followed by digits.
func isPort(s string) bool { return len(s) > 1 && s[0] == ':' && isAllDigits(s[1:]) }

// isDomain reports whether s consists of labels with letters, digits and inner hyphens.
func isDomain(s string) bool {
	edge := true // at the start of a label, or after a hyphen
	for i := range len(s) {
		switch c := s[i]; {
		case isLower(c) || isDigit(c) || isUpper(c):
			edge = false
		case c == '-' && i > 0 && s[i-1] != '.':
			edge = true
		case c == '.' && !edge:
			edge = true
		default:
			return false
		}
	}
	return !edge
}

// isRepositoryPath reports whether s consists of lower-case letters and digits, with single
// separators between them.
func isRepositoryPath(s string) bool {
	edge := true // at the start, or after a separator
	for i := 0; i < len(s); i++ {
		if c := s[i]; isLower(c) || isDigit(c) {
			edge = false
			continue
		}
		n := separatorLength(s[i:])
		if edge || n == 0 {
			return false
		}
		edge = true
		i += n - 1
	}
	return !edge
}

// separatorLength returns the length of the separator at the start of s, or 0 if there is
// none. A separator is a slash, a dot, one or two underscores, or any number of
// hyphens.
func separatorLength(s string) int {
	switch {
	case s[0] == '-':
		return len(s) - len(strings.TrimLeft(s, "-"))
	case strings.HasPrefix(s, "__"):
		return 2
	case s[0] == '/' || s[0] == '.' || s[0] == '_':
		return 1
	}
	return 0
}

func isTag(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLower(c) && !isDigit(c) && !isUpper(c) && c != '_' && (i == 0 || c != '.' && c != '-') {
			return false
		}
	}
	return 0 < len(s) && len(s) <= 128
}

// isDigest reports whether s is a digest with an algorithm that the kubelet supports.
func isDigest(s string) bool {
	algorithm, hex, _ := strings.Cut(s, ":")
	switch algorithm {
	case "sha256":
		return len(hex) == 64 && isHex(hex)
	case "sha384":
		return len(hex) == 96 && isHex(hex)
	case "sha512":
		return len(hex) == 128 && isHex(hex)
	}
	return false
}

// isHex reports whether s consists of lowercase hex digits.
func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isDigit(c) && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// explainInvalidName returns why a name without tag and digest is invalid. For an invalid
// character, the error is the same as the library's.
func explainInvalidName(name, path string) error {
	first, _, found := strings.Cut(name, "/")
	switch {
	case strings.Contains(name, "://"):
		return newFormatError("an image name cannot have a scheme")
	case found && strings.ContainsAny(first, ".:") && !isHostWithPort(first):
		return newFormatError("the part before the first slash is not a valid host[:port]")
	case found && strings.Contains("/"+path+"/", "//"):
		return newFormatError("the name has an empty path component: a leading, trailing or double slash")
	case strings.ContainsFunc(path, unicode.IsUpper):
		return newFormatError("repository name (" + sanitizeForError(path) + ") must be lowercase")
	case path != "" && strings.Trim(path, "abcdefghijklmnopqrstuvwxyz0123456789./_-") == "":
		return newFormatError("separators between letters or digits must be one period, one or two underscores, or any number of hyphens")
	}
	return errors.New(invalidFormat)
}

// invalidFormat is the error message of the library and the kubelet.
const invalidFormat = "invalid reference format"

func newFormatError(detail string) error { return errors.New(invalidFormat + ": " + detail) }

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isAllDigits reports whether s is empty or contains only digits.
func isAllDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
