// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import "strings"

const (
	maxNamePart   = 63  // limit for a qualified name, in bytes
	maxNamePrefix = 253 // a DNS subdomain
)

// qualifiedNameProblem returns why s is not a qualified name in Kubernetes
// (k8s.io/apimachinery/pkg/util/validation), or "" if it is. A qualified name is an
// optional DNS subdomain and a slash, then a name of at most 63 bytes.
func qualifiedNameProblem(s string) string {
	prefix, name, ok := strings.Cut(s, "/")
	if !ok {
		prefix, name = "", s
	}
	switch {
	case ok && !isSubdomain(prefix):
		return "the part before the slash must be a lowercase DNS name"
	case strings.Contains(name, "/"):
		return "it must contain at most one slash"
	case name == "":
		return "the name is empty"
	case len(name) > maxNamePart:
		return "the name is longer than 63 bytes"
	case !isAlphanumericWith(name, "-_."):
		return "the name must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit"
	}
	return ""
}

// isSubdomain reports whether s is a lowercase DNS subdomain (RFC 1123).
func isSubdomain(s string) bool {
	if len(s) > maxNamePrefix || s != strings.ToLower(s) {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !isAlphanumericWith(label, "-") {
			return false
		}
	}
	return true
}

// isAlphanumericWith reports whether s is not empty and consists of ASCII letters and
// digits and, except at its ends, the bytes of inner.
func isAlphanumericWith(s, inner string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && (i == 0 || i == len(s)-1 || strings.IndexByte(inner, c) < 0) {
			return false
		}
	}
	return s != ""
}
