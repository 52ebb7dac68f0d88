// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package excerpt

import (
	"fmt"
	"slices"
	"strings"
)

// QuoteSecretKey quotes a key of a Kubernetes Secret's data if it looks like a key. Otherwise
// it hides the key, because the user may have swapped a key and a password.
func QuoteSecretKey(key string) string {
	lower := strings.ToLower(key)
	known := slices.ContainsFunc([]string{"docker", "config", "json", "yaml"}, func(part string) bool { return strings.Contains(lower, part) })
	if len(key) > 64 || strings.Trim(lower, "abcdefghijklmnopqrstuvwxyz.-_") != "" ||
		!known && !slices.Contains([]string{"username", "password", "token", "auth", "ca.crt", "tls.crt", "tls.key", "ssh-privatekey", "namespace"}, key) {
		return "…"
	}
	return fmt.Sprintf("%q", key)
}

// DescribeSecretType returns "type " and a Kubernetes Secret's type. It returns "another type"
// if the value does not look like a type.
func DescribeSecretType(kind string) string {
	lower := strings.ToLower(kind)
	domain, _, ok := strings.Cut(lower, "/")
	switch {
	case kind == "":
		return "type Opaque"
	case len(kind) >= 100 || strings.Trim(lower, "abcdefghijklmnopqrstuvwxyz0123456789./-") != "":
	case ok && strings.Contains(domain, "."), strings.Contains(lower, "docker"), lower == "opaque":
		return "type " + kind
	}
	return "another type"
}
