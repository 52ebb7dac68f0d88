// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"fmt"
	"slices"
	"strings"
)

// maxShown bounds a key or name from a file that is shown, in bytes.
const maxShown = 128

// ShowKey quotes a key if it looks like a registry. Somebody who swaps key and
// value puts a password there, of which nothing is shown.
func ShowKey(key string) string {
	if !looksLikeRegistry(key) {
		return hiddenKey
	}
	return fmt.Sprintf("%q", key)
}

const hiddenKey = "a hidden key"

// ShowKeys returns keys as far as a report shows them, in their order.
func ShowKeys(keys []string) []string {
	list := slices.Clone(keys)
	for i, key := range list {
		if !looksLikeRegistry(key) {
			list[i] = hiddenKey
		}
	}
	return list
}

// ShowUser returns a user name as far as a report shows it: where it looks like a
// token or a key, which some registries take there and others by mistake, nothing.
func ShowUser(name string) string {
	if len(name) > maxShown || tokenLike(name) || strings.Contains(name, "{") || strings.Contains(name, "-----BEGIN") {
		return "a hidden user name"
	}
	return name
}

// tokenLike reports whether a text begins as the tokens of registries do.
func tokenLike(s string) bool {
	return slices.ContainsFunc([]string{
		"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glcbt-", "glptt-", "glrt-",
		"dckr_pat_", "dckr_oat_", "dop_v1_", "ya29.", "eyJ", "sha256~", "AKCp", "npm_", "hvs.", "xox", "AQAAA",
	}, func(prefix string) bool { return strings.HasPrefix(s, prefix) })
}

const (
	letters = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)

// looksLikeRegistry reports whether a key is a host, with or without scheme, port
// and path, and no password to all appearances: "user:password" is none, nor is
// what has a dot but does not end like a name of DNS.
func looksLikeRegistry(key string) bool {
	lower := strings.ToLower(key)
	if len(key) > maxShown || tokenLike(key) || strings.Trim(lower, letters+digits+".-_:/*") != "" {
		return false
	}
	scheme, rest, ok := strings.Cut(lower, "://")
	if !ok {
		scheme, rest = "", lower
	}
	host, _, _ := strings.Cut(rest, "/")
	host, port, _ := strings.Cut(host, ":")
	if strings.Trim(scheme, letters) != "" || strings.Trim(port, digits) != "" || strings.Contains(host, "_") {
		return false
	}
	i := strings.LastIndexByte(host, '.')
	last := host[i+1:]
	switch {
	case i < 0:
		return host == "localhost" || host == "*" || host != "" && key == lower && port != "" && len(port) <= len("65535")
	case strings.Trim(host, digits+".*") == "": // an address
		return strings.Count(host, ".") == 3 || last == "*"
	}
	return last == "*" || strings.HasPrefix(last, "xn--") || len(last) > 1 && strings.Trim(last, letters) == ""
}
