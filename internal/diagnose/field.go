// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package diagnose

import (
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/spelling"
)

const providerConfigKind = "CredentialProviderConfig"

const (
	hintInProvider        = "this field belongs in a providers entry"
	hintInTokenAttributes = "this field belongs in tokenAttributes"
	hintAtTopLevel        = "this field belongs at the top level of the file"
	hintOneLevelUp        = "this field belongs in the provider, one level up"
	hintInResponse        = "this field belongs in the plugin's response"
	hintInDockerConfig    = "this field belongs in docker's config.json"
	hintExtraArgs         = "this kind of file uses extraArgs to set environment variables"
)

// misplacedFieldHints holds hints for fields that are in the wrong mapping. The field has
// identifies the mapping.
var misplacedFieldHints = []struct {
	has   string
	hints map[string]string
}{
	{"providers", map[string]string{
		"name": hintInProvider, "matchImages": hintInProvider, "defaultCacheDuration": hintInProvider, "args": hintInProvider, "env": hintInProvider, "tokenAttributes": hintInProvider,
		"auths": hintInDockerConfig, "credHelpers": hintInDockerConfig, "credsStore": hintInDockerConfig,
	}},
	{"matchImages", map[string]string{
		"serviceAccountTokenAudience": hintInTokenAttributes, "cacheType": hintInTokenAttributes, "requireServiceAccount": hintInTokenAttributes,
		"requiredServiceAccountAnnotationKeys": hintInTokenAttributes, "optionalServiceAccountAnnotationKeys": hintInTokenAttributes,
		"audience":        "did you mean serviceAccountTokenAudience in tokenAttributes?",
		"tokenAttributes": "supported only in version kubelet.config.k8s.io/v1",
		"imageMatchers":   "matchImages was called imageMatchers in the out-of-tree proposal",
		"extraArgs":       "this field exists only in the out-of-tree proposal: use args or env",
		"cacheDuration":   hintInResponse + "; use defaultCacheDuration", "cacheKeyType": hintInResponse, "auth": hintInResponse,
		"kind": hintAtTopLevel, "providers": hintAtTopLevel, "auths": hintInDockerConfig,
	}},
	{"serviceAccountTokenAudience", map[string]string{
		"name": hintOneLevelUp, "matchImages": hintOneLevelUp, "defaultCacheDuration": hintOneLevelUp, "apiVersion": hintOneLevelUp, "args": hintOneLevelUp, "env": hintOneLevelUp,
		"audience":     "did you mean serviceAccountTokenAudience?",
		"cacheKeyType": hintInResponse + "; use cacheType",
	}},
	{"imageMatchers", map[string]string{ // a provider of the out-of-tree proposal
		"matchImages": "use imageMatchers in this kind of file", "args": hintExtraArgs, "env": hintExtraArgs,
		"defaultCacheDuration": "not supported in this kind of file, because responses are cached until their expirationTimestamp",
		"tokenAttributes":      "supported only in kind " + providerConfigKind,
	}},
}

// ExplainUnknownField suggests a name or another mapping for an unknown field. known lists
// the fields that its mapping may have. It returns "" if it has no suggestion.
func ExplainUnknownField(name string, known []string) string {
	for _, m := range misplacedFieldHints {
		if hint := m.hints[name]; hint != "" && slices.Contains(known, m.has) {
			return hint
		}
	}
	switch nearest := ClosestField(name, known); {
	case nearest == "":
		return ""
	case normalizeFieldName(nearest) == normalizeFieldName(name):
		return "did you mean " + nearest + "? (case matters)"
	default:
		return "did you mean " + nearest + "?"
	}
}

// ClosestField returns the known field that a name probably means, or "".
func ClosestField(name string, known []string) string {
	best, distance := "", 3
	for _, field := range known {
		if normalizeFieldName(field) == normalizeFieldName(name) || sortedWords(field) == sortedWords(name) {
			return field
		}
		d := spelling.Distance(normalizeFieldName(field), normalizeFieldName(name))
		if 2*d < len(field) && (d < distance || d == distance && field < best) {
			best, distance = field, d
		}
	}
	return best
}

// sortedWords returns the words of a name in alphabetical order, without their endings, so that
// "imageMatches" equals "matchImages".
func sortedWords(name string) string {
	var words []string
	start := 0
	for i := range len(name) + 1 {
		if i < len(name) && (i == 0 || name[i] < 'A' || name[i] > 'Z') && name[i] != '_' && name[i] != '-' {
			continue
		}
		word := strings.ToLower(strings.Trim(name[start:i], "_-"))
		for _, ending := range []string{"s", "er", "e"} { // matchers, matches, images
			if len(word) > len(ending)+3 {
				word = strings.TrimSuffix(word, ending)
			}
		}
		if start = i; word != "" {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func normalizeFieldName(s string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
}
