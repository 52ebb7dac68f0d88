// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package diagnose

import (
	"slices"
	"strings"
	"unicode"

	"github.com/regcred/regcred/internal/spelling"
)

const configKind = "CredentialProviderConfig"

const (
	inProvider   = "this field belongs in a providers entry"
	inAttributes = "this field belongs in tokenAttributes"
	atTop        = "this field belongs at the top level of the file"
	oneLevelUp   = "this field belongs in the provider, one level up"
	inResponse   = "this field belongs in the plugin's response"
	inDocker     = "this field belongs in docker's config.json"
	asExtraArgs  = "this kind of file uses extraArgs to set environment variables"
)

// misplaced holds hints for fields that a mapping does not have. A mapping is
// recognized by one of its own fields.
var misplaced = []struct {
	has   string
	hints map[string]string
}{
	{"providers", map[string]string{
		"name": inProvider, "matchImages": inProvider, "defaultCacheDuration": inProvider, "args": inProvider, "env": inProvider, "tokenAttributes": inProvider,
		"auths": inDocker, "credHelpers": inDocker, "credsStore": inDocker,
	}},
	{"matchImages", map[string]string{
		"serviceAccountTokenAudience": inAttributes, "cacheType": inAttributes, "requireServiceAccount": inAttributes,
		"requiredServiceAccountAnnotationKeys": inAttributes, "optionalServiceAccountAnnotationKeys": inAttributes,
		"audience":        "did you mean serviceAccountTokenAudience in tokenAttributes?",
		"tokenAttributes": "supported only in version kubelet.config.k8s.io/v1",
		"imageMatchers":   "matchImages was called imageMatchers in the out-of-tree proposal",
		"extraArgs":       "this field exists only in the out-of-tree proposal: use args or env",
		"cacheDuration":   inResponse + "; use defaultCacheDuration", "cacheKeyType": inResponse, "auth": inResponse,
		"kind": atTop, "providers": atTop, "auths": inDocker,
	}},
	{"serviceAccountTokenAudience", map[string]string{
		"name": oneLevelUp, "matchImages": oneLevelUp, "defaultCacheDuration": oneLevelUp, "apiVersion": oneLevelUp, "args": oneLevelUp, "env": oneLevelUp,
		"audience":     "did you mean serviceAccountTokenAudience?",
		"cacheKeyType": inResponse + "; use cacheType",
	}},
	{"imageMatchers", map[string]string{ // a provider of the out-of-tree proposal
		"matchImages": "use imageMatchers in this kind of file", "args": asExtraArgs, "env": asExtraArgs,
		"defaultCacheDuration": "not supported in this kind of file, because responses are cached until their expirationTimestamp",
		"tokenAttributes":      "supported only in kind " + configKind,
	}},
}

// UnknownField guesses what an unknown field was intended to be, in a mapping
// with these known fields; "" if there is no guess.
func UnknownField(name string, known []string) string {
	for _, m := range misplaced {
		if hint := m.hints[name]; hint != "" && slices.Contains(known, m.has) {
			return hint
		}
	}
	switch nearest := NearestField(name, known); {
	case nearest == "":
		return ""
	case fold(nearest) == fold(name):
		return "did you mean " + nearest + "? (case matters)"
	default:
		return "did you mean " + nearest + "?"
	}
}

// NearestField returns the known field that a name probably means; "" for none.
func NearestField(name string, known []string) string {
	if name == "imageMatchers" && slices.Contains(known, "matchImages") {
		return "matchImages"
	}
	best, distance := "", 3
	for _, field := range known {
		if fold(field) == fold(name) {
			return field
		}
		d := spelling.Distance(fold(field), fold(name))
		if 2*d < len(field) && (d < distance || d == distance && field < best) {
			best, distance = field, d
		}
	}
	return best
}

// fold removes case and separators.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_ ", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}
