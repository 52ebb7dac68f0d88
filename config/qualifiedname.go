// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"regexp"
	"strings"
	"sync"
)

const (
	maxNamePart   = 63  // length limit for the name after the prefix, in bytes
	maxNamePrefix = 253 // length limit for the prefix, a DNS subdomain
)

// qualifiedNameProblem returns why s is not a qualified name in Kubernetes
// (k8s.io/apimachinery/pkg/util/validation), or "" if s is valid. A qualified name is a name of
// at most 63 bytes. A DNS subdomain and a slash may precede it.
func qualifiedNameProblem(s string) string {
	prefix, name, ok := strings.Cut(s, "/")
	if !ok {
		prefix, name = "", s
	}
	switch {
	case ok && (len(prefix) > maxNamePrefix || !subdomainPattern().MatchString(prefix)):
		return "the part before the slash must be a lowercase DNS name"
	case strings.Contains(name, "/"):
		return "it must contain at most one slash"
	case name == "":
		return "the name is empty"
	case len(name) > maxNamePart:
		return "the name is longer than 63 bytes"
	case !namePattern().MatchString(name):
		return "the name must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit"
	}
	return ""
}

const dnsLabel = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`

var (
	namePattern      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`) })
	subdomainPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + dnsLabel + `(\.` + dnsLabel + `)*$`) })
)
