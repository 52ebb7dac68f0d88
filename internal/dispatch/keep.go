// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dispatch

import (
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/plugin"
)

// The kubelet tries credentials in reverse byte order of their keys, so the keys
// determine the order. A key that matches an image consists of a host and a byte-wise
// prefix of the image's path. The longer of two prefixes is tried first.

// authKeyPrefix is a key that matches an image. It consists of a host and the length of
// the path prefix.
type authKeyPrefix struct {
	host       string
	pathLength int
}

// imageKeys is an image whose path prefixes are used as keys.
type imageKeys struct {
	host, path string
}

// newImageKeys splits an image into its host and path.
func newImageKeys(image string) imageKeys {
	host, path, _ := strings.Cut(image, "/")
	// kubelet: parses a bracketed address without a port as a character class, so only
	// a * matches it.
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = "*"
	}
	return imageKeys{host, "/" + path}
}

// normalizedKey returns the normalized key. A path that is only a slash is removed.
func (l imageKeys) normalizedKey(r authKeyPrefix) string {
	if r.pathLength <= 1 {
		return r.host
	}
	return r.host + l.path[:r.pathLength]
}

// unnormalizedKey returns a key that the kubelet normalizes to normalizedKey(r).
//
// kubelet: removes /v1 or /v2 from the beginning of a key's path.
func (l imageKeys) unnormalizedKey(r authKeyPrefix) string {
	if path := l.path[:r.pathLength]; strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v2/") {
		return r.host + "/v2" + path
	}
	return l.normalizedKey(r)
}

// OrderedAuth returns auth with keys that preserve the order of the credentials. If
// possible, it keeps the keys that the providers returned, because the kubelet also sorts
// them together with credentials of other entries. left is the number of credentials that
// were dropped from the end because the path has too few prefixes.
func OrderedAuth(image string, credentials []regcred.Credential) (auth map[string]plugin.AuthConfig, left int) {
	l := newImageKeys(image)
	keys, ok := l.keysNearOriginal(image, credentials)
	if !ok {
		keys = l.highestKeys(len(credentials))
	}
	auth = make(map[string]plugin.AuthConfig, len(keys))
	for i, key := range keys {
		auth[key] = plugin.AuthConfig{Username: credentials[i].Username, Password: credentials[i].Password}
	}
	return auth, len(credentials) - len(keys)
}

// keysNearOriginal returns the keys that the providers returned, in the order of the
// credentials. If a key is not higher than the next one, it is replaced by the lowest
// higher key with the same host. ok is false if there is no such key.
func (l imageKeys) keysNearOriginal(image string, credentials []regcred.Credential) (keys []string, ok bool) {
	keys = make([]string, len(credentials))
	at, invalid := location.Parse(image)
	below := ""
	for i := len(credentials) - 1; i >= 0; i-- {
		own := credentials[i].Match
		p, err := location.ParsePattern(own)
		if err != nil || invalid != nil || !p.Match(at) {
			// The kubelet uses Docker Hub's key if no key matches.
			return []string{own}, own == location.HubKey && len(credentials) == 1
		}
		r := authKeyPrefix{pathLength: len(p.Location.Path)}
		r.host, _, _ = strings.Cut(own, "/")
		for l.normalizedKey(r) <= below {
			if r.pathLength++; r.pathLength > len(l.path) {
				return nil, false
			}
		}
		below, keys[i] = l.normalizedKey(r), l.unnormalizedKey(r)
	}
	return keys, true
}

// highestKeys returns up to n of the highest keys with the image's host.
func (l imageKeys) highestKeys(n int) (keys []string) {
	for at := len(l.path); at >= 0 && len(keys) < n; at-- {
		if at != 1 { // a single slash is removed
			keys = append(keys, l.unnormalizedKey(authKeyPrefix{l.host, at}))
		}
	}
	return keys
}
