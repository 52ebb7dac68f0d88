// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/regcred/regcred/upstream/vector"
)

// reason names the difference because of which a kubelet says something else
// about a case than the vectors do, or returns "".
func (l line) reason(o *oracle, base json.RawMessage) string {
	switch l.Kind {
	case "match":
		return of(looseColons, o.minor)
	case "config":
		return l.configReason(o, base)
	case "cachekey":
		return of(noCacheType, o.minor)
	case "serviceaccount":
		switch {
		case bytes.Contains(l.Says, []byte(`"credentials"`)): // the plugin has given the token back
			return of(noCacheType, o.minor)
		case bytes.Contains(l.Says, []byte(`"from"`)):
			return of(noOrigin, o.minor)
		}
	}
	return ""
}

func (l line) configReason(o *oracle, base json.RawMessage) string {
	var v vector.Config
	if err := json.Unmarshal(base, &v); err != nil {
		return ""
	}
	text := ""
	for _, f := range v.Files {
		text += string(f.Content)
	}
	token := strings.Contains(strings.ToLower(text), "tokenattributes")
	switch {
	case v.IsDir:
		return of(noDirectory, o.minor)
	case strings.HasPrefix(l.Name, "images "):
		return of(looseColons, o.minor)
	case token && l.TokensOff && bytes.Contains(l.Says, []byte(`"refused":true`)) && !strings.Contains(strings.ToLower(text), "cachetype"):
		return of(tokenGate, o.minor)
	case token && of(noCacheType, o.minor) != "":
		return noCacheType
	case token && l.TokensOff:
		return of(tokenGate, o.minor)
	}
	return ""
}
