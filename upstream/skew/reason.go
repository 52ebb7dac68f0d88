// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/vector"
)

// reason names the difference because of which a kubelet says something else
// about a case than the vectors do, or returns "". A difference explains what it
// brings with it and nothing else: the rest of the answer is as in the vectors.
func (l line) reason(o *oracle, base, got json.RawMessage) string {
	switch l.Kind {
	case "match":
		var b, g vector.Match
		if unmarshal(base, &b, got, &g) == nil && byColons(b, g) {
			return of(looseColons, o.minor)
		}
	case "config":
		return l.configReason(o, base)
	case "cachekey":
		var b vector.CacheKey
		if json.Unmarshal(base, &b) == nil && b.CacheType == "Token" {
			return of(noCacheType, o.minor)
		}
	case "serviceaccount":
		var b vector.ServiceAccount
		switch err := json.Unmarshal(base, &b); {
		case err == nil && b.Echo && string(l.Says) == `{"credentials":1}`: // the plugin has given the token back
			return of(noCacheType, o.minor)
		case string(l.Says) == `{"from":null}`:
			return of(noOrigin, o.minor)
		}
	}
	return ""
}

// byColons reports whether two answers about a match differ by no more than one
// kubelet's taking several colons in a host: a pattern that has them is valid, and
// matches nothing but what has them too; an image that has them may be matched.
func byColons(strict, got vector.Match) bool {
	pattern, image := loose(string(strict.Pattern)), loose(string(strict.Image))
	if pattern {
		return strict.Invalid && !got.Invalid && (image || !got.Match)
	}
	return image && strict.Invalid == got.Invalid
}

// configReason is the reason for another verdict on a configuration: that is all in
// which kubelets may differ there.
func (l line) configReason(o *oracle, base json.RawMessage) string {
	var v vector.Config
	if err := json.Unmarshal(base, &v); err != nil {
		return ""
	}
	refused := string(l.Says) == `{"refused":true}`
	if !refused && string(l.Says) != `{"refused":false}` {
		return ""
	}
	text := ""
	for _, f := range v.Files {
		text += strings.ToLower(string(f.Content))
	}
	token := strings.Contains(text, "tokenattributes")
	switch {
	case refused && v.IsDir:
		return of(noDirectory, o.minor)
	case !refused && slices.ContainsFunc(v.Providers, loosePattern):
		return of(looseColons, o.minor)
	case token && of(noCacheType, o.minor) != "":
		return noCacheType
	case refused && token && l.TokensOff:
		return of(tokenGate, o.minor)
	}
	return ""
}

func loosePattern(p kubelet.Provider) bool { return slices.ContainsFunc(p.MatchImages, loose) }
