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

// reason returns the name of the difference that explains why a kubelet's vector differs
// from the baseline, or "". A difference explains only its own effects: the rest of the
// vector must be equal.
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
		case err == nil && b.Echo && string(l.Says) == `{"credentials":1}`: // the plugin returned the token
			return of(noCacheType, o.minor)
		case string(l.Says) == `{"from":null}`:
			return of(noOrigin, o.minor)
		}
	}
	return ""
}

// byColons reports whether two vectors of a match differ only because one kubelet accepts
// several colons in a host. Then a pattern with several colons is valid and only matches
// hosts that have them too, and an image with several colons may match.
func byColons(strict, got vector.Match) bool {
	pattern, image := loose(string(strict.Pattern)), loose(string(strict.Image))
	if pattern {
		return strict.Invalid && !got.Invalid && (image || !got.Match)
	}
	return image && strict.Invalid == got.Invalid
}

// configReason returns the reason for another verdict on a configuration. Kubelets may
// not differ in anything else there.
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
