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

// differenceName returns the name of the known difference that explains why a kubelet's vector
// differs from the baseline, or "". A difference explains only its own effects. The rest of the
// vector must be equal.
func (l differenceLine) differenceName(o *kubeletProcess, base, got json.RawMessage) string {
	switch l.Kind {
	case "match":
		var b, g vector.MatchVector
		if unmarshalBoth(base, &b, got, &g) == nil && differsOnlyByColons(b, g) {
			return differenceFor(diffLooseColons, o.minor)
		}
	case "config":
		return l.configDifferenceName(o, base)
	case "cachekey":
		var b vector.CacheKeyVector
		if json.Unmarshal(base, &b) == nil && b.CacheType == "Token" {
			return differenceFor(diffNoCacheType, o.minor)
		}
	case "serviceaccount":
		var b vector.ServiceAccountVector
		switch err := json.Unmarshal(base, &b); {
		case err == nil && b.Echo && string(l.Changes) == `{"credentials":1}`: // the plugin returned the token
			return differenceFor(diffNoCacheType, o.minor)
		case string(l.Changes) == `{"from":null}`:
			return differenceFor(diffNoOrigin, o.minor)
		}
	}
	return ""
}

// differsOnlyByColons reports whether two match vectors differ only because one kubelet accepts
// several colons in a host. For that kubelet, a pattern with several colons is valid, but only
// matches hosts with several colons. An image with several colons may match.
func differsOnlyByColons(strict, got vector.MatchVector) bool {
	pattern, image := isLoosePattern(string(strict.Pattern)), isLoosePattern(string(strict.Image))
	if pattern {
		return strict.Invalid && !got.Invalid && (image || !got.Match)
	}
	return image && strict.Invalid == got.Invalid
}

// configDifferenceName returns the name of the known difference that explains why one kubelet
// rejects a configuration and the other accepts it, or "". It explains no other differences between
// two vectors of a configuration.
func (l differenceLine) configDifferenceName(o *kubeletProcess, base json.RawMessage) string {
	var v vector.ConfigVector
	if err := json.Unmarshal(base, &v); err != nil {
		return ""
	}
	refused := string(l.Changes) == `{"refused":true}`
	if !refused && string(l.Changes) != `{"refused":false}` {
		return ""
	}
	text := ""
	for _, f := range v.Files {
		text += strings.ToLower(string(f.Content))
	}
	token := strings.Contains(text, "tokenattributes")
	switch {
	case refused && v.IsDir:
		return differenceFor(diffNoDirectory, o.minor)
	case !refused && slices.ContainsFunc(v.Providers, hasLoosePattern):
		return differenceFor(diffLooseColons, o.minor)
	case token && differenceFor(diffNoCacheType, o.minor) != "":
		return diffNoCacheType
	case refused && token && l.TokensOff:
		return differenceFor(diffTokenGate, o.minor)
	}
	return ""
}

func hasLoosePattern(p kubelet.Provider) bool {
	return slices.ContainsFunc(p.MatchImages, isLoosePattern)
}
