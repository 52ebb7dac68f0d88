// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerjson

import (
	"fmt"
	"slices"
	"strings"
)

// CallerVariable is set to the name of a credential helper in the environment of
// the plugins that it runs, so that they do not call the helper again.
const CallerVariable = "REGCRED_ASKED_BY"

// MaxShown bounds a key or name that is shown, in bytes.
const MaxShown = 128

// ShowKey returns a quoted key if it looks like a registry, and "a hidden key"
// otherwise: where key and value are swapped, the key is a password.
func ShowKey(key string) string {
	if !looksLikeRegistry(key) {
		return hiddenKey
	}
	return fmt.Sprintf("%q", key)
}

const hiddenKey = "a hidden key"

// ShowKeys returns keys for a report, with other keys than registries hidden.
func ShowKeys(keys []string) []string {
	list := slices.Clone(keys)
	for i, key := range list {
		if !looksLikeRegistry(key) {
			list[i] = hiddenKey
		}
	}
	return list
}

// ShowUser returns a user name for a report. One that looks like a token or key is
// hidden: some registries accept a token as the user name.
func ShowUser(name string) string {
	if len(name) > MaxShown || isToken(name) || strings.Contains(name, "{") || strings.Contains(name, "-----BEGIN") {
		return "a hidden user name"
	}
	return name
}

// isToken reports whether a text has the prefix of a known kind of token.
func isToken(s string) bool {
	return slices.ContainsFunc([]string{
		"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glcbt-", "glptt-", "glrt-",
		"dckr_pat_", "dckr_oat_", "dop_v1_", "ya29.", "eyJ", "sha256~", "AKCp", "npm_", "hvs.", "xox", "AQAAA",
	}, func(prefix string) bool { return strings.HasPrefix(s, prefix) })
}

const (
	letters = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)

// looksLikeRegistry reports whether a key is a host, with optional scheme, port
// and path, and unlikely to be a password such as "user:password" or "pass.w0rd".
func looksLikeRegistry(key string) bool {
	lower := strings.ToLower(key)
	if len(key) > MaxShown || isToken(key) || strings.Trim(lower, letters+digits+".-_:/*") != "" {
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
