// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerjson

import (
	"fmt"
	"slices"
	"strings"
)

// CallerEnvName is set in the environment of the plugins that a credential helper runs.
// Its value is the helper's name. It keeps plugins from calling the helper again.
const CallerEnvName = "REGCRED_ASKED_BY"

// MaxDisplaySize limits the length of a key or name that is shown, in bytes.
const MaxDisplaySize = 128

// DisplayKey returns a quoted key if it looks like a registry, and "a hidden key"
// otherwise. If key and value were swapped, the key would be a password.
func DisplayKey(key string) string {
	if !looksLikeRegistry(key) {
		return hiddenKeyText
	}
	return fmt.Sprintf("%q", key)
}

const hiddenKeyText = "a hidden key"

// DisplayKeys returns keys for a report. Keys that do not look like registries are
// hidden.
func DisplayKeys(keys []string) []string {
	list := slices.Clone(keys)
	for i, key := range list {
		if !looksLikeRegistry(key) {
			list[i] = hiddenKeyText
		}
	}
	return list
}

// DisplayUser returns a user name for a report. Names that look like a token or key are
// hidden, because some registries accept a token as the user name.
func DisplayUser(name string) string {
	if len(name) > MaxDisplaySize || hasTokenPrefix(name) || strings.Contains(name, "{") || strings.Contains(name, "-----BEGIN") {
		return "a hidden user name"
	}
	return name
}

// OpenShiftTokenUser is the user name in pull secrets that OpenShift writes and renews.
const OpenShiftTokenUser = "<token>"

// IsLiteralUser reports whether a user name looks like a placeholder but is sent to registries as it
// is. The names are from the documentation of NVIDIA NGC and Quay, which can be self-hosted under any
// name, and from OpenShift's controller for pull secrets of service accounts.
func IsLiteralUser(user string) bool {
	return slices.Contains([]string{OpenShiftTokenUser, "$oauthtoken", "$app", "$token"}, user)
}

// hasTokenPrefix reports whether s has the prefix of a known kind of token.
func hasTokenPrefix(s string) bool {
	return slices.ContainsFunc([]string{
		"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glcbt-", "glptt-", "glrt-",
		"dckr_pat_", "dckr_oat_", "dop_v1_", "ya29.", "eyJ", "sha256~", "AKCp", "npm_", "hvs.", "xox", "AQAAA",
	}, func(prefix string) bool { return strings.HasPrefix(s, prefix) })
}

const (
	letterChars = "abcdefghijklmnopqrstuvwxyz"
	digitChars  = "0123456789"
)

// looksLikeRegistry reports whether a key is a host, with optional scheme, port and
// path, and is unlikely to be a password such as "user:password" or "pass.w0rd".
func looksLikeRegistry(key string) bool {
	lower := strings.ToLower(key)
	if len(key) > MaxDisplaySize || hasTokenPrefix(key) || strings.Trim(lower, letterChars+digitChars+".-_:/*") != "" {
		return false
	}
	scheme, rest, ok := strings.Cut(lower, "://")
	if !ok {
		scheme, rest = "", lower
	}
	host, _, _ := strings.Cut(rest, "/")
	host, port, _ := strings.Cut(host, ":")
	if strings.Trim(scheme, letterChars) != "" || strings.Trim(port, digitChars) != "" || strings.Contains(host, "_") {
		return false
	}
	i := strings.LastIndexByte(host, '.')
	last := host[i+1:]
	switch {
	case i < 0:
		return host == "localhost" || host == "*" || host != "" && key == lower && port != "" && len(port) <= len("65535")
	case strings.Trim(host, digitChars+".*") == "": // an address
		return strings.Count(host, ".") == 3 || last == "*"
	}
	return last == "*" || strings.HasPrefix(last, "xn--") || len(last) > 1 && strings.Trim(last, letterChars) == ""
}
