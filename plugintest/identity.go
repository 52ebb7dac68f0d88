// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/regcred/regcred/plugin"
)

// identity is the service account of the requests.
type identity struct {
	token       plugin.Secret
	annotations map[string]string
	title       string // description of the token
}

func newIdentity(given *ServiceAccount, now time.Time) identity {
	id := identity{annotations: map[string]string{"example.com/role": "puller"}}
	audience := "conformance.example"
	if given != nil {
		id = identity{given.Token, given.Annotations, "the given service account token"}
		audience = cmp.Or(given.Audience, audience)
	}
	if id.token.IsZero() {
		id.token, id.title = newToken(audience, now), "a generated service account token"
	}
	return id
}

// secrets returns the token, and its signature separately.
func (id identity) secrets() []plugin.Secret {
	token := id.token.Reveal()
	return []plugin.Secret{id.token, plugin.NewSecret(token[strings.LastIndexByte(token, '.')+1:])}
}

// newToken returns a token in the format of an API server (KEP-1205), with a random
// signature.
func newToken(audience string, now time.Time) plugin.Secret {
	signature := make([]byte, 256) // RS256
	rand.Read(signature)           // never fails
	object := func(name string) map[string]any { return map[string]any{"name": name, "uid": rand.Text()} }
	pod := map[string]any{
		"namespace":      "conformance",
		"pod":            object("app"),
		"serviceaccount": object("app"),
	}
	return plugin.NewSecret(strings.Join([]string{
		segment(map[string]any{"alg": "RS256", "kid": rand.Text()}),
		segment(map[string]any{
			"aud":           []string{audience},
			"exp":           now.Add(time.Hour).Unix(),
			"iat":           now.Unix(),
			"nbf":           now.Unix(),
			"iss":           "https://kubernetes.default.svc.cluster.local",
			"jti":           rand.Text(),
			"kubernetes.io": pod,
			"sub":           "system:serviceaccount:conformance:app",
		}),
		base64.RawURLEncoding.EncodeToString(signature),
	}, "."))
}

func segment(claims map[string]any) string {
	data, _ := json.Marshal(claims) // always valid JSON types
	return base64.RawURLEncoding.EncodeToString(data)
}
