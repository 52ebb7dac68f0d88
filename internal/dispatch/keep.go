// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dispatch

import (
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/plugin"
)

// A kubelet takes the credentials of an answer in the reverse byte order of
// their keys, so that order is all that an answer can say about which comes
// first. Each key that matches an image is a host and a beginning of the image's
// path, by bytes and not by elements, and of two beginnings of one path the
// longer comes first.

// rung is a key that matches an image: a host, and how many bytes of the path.
type rung struct {
	host string
	n    int
}

// ladder is the path of an image, which keys are beginnings of.
type ladder struct {
	host, path string
}

// newLadder takes an image apart.
func newLadder(image string) ladder {
	host, path, _ := strings.Cut(image, "/")
	// kubelet: an address in brackets without a port is taken for a character
	// class, and only a * matches it.
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = "*"
	}
	return ladder{host, "/" + path}
}

// text is what a kubelet compares: a path of a slash alone is none.
func (l ladder) text(r rung) string {
	if r.n <= 1 {
		return r.host
	}
	return r.host + l.path[:r.n]
}

// key is what a kubelet makes [ladder.text] of.
//
// kubelet: a key loses a /v1 or /v2 at the beginning of its path.
func (l ladder) key(r rung) string {
	if path := l.path[:r.n]; strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v2/") {
		return r.host + "/v2" + path
	}
	return l.text(r)
}

// keep returns credentials, which are in the order in which they are to be
// tried, under keys that keep it. They stay under their own where that does,
// so that a kubelet puts them in their place among those of other entries. Left
// is how many of the last are not there, because the path has too few beginnings.
func keep(image string, credentials []regcred.Credential) (auth map[string]plugin.AuthConfig, left int) {
	l := newLadder(image)
	keys, ok := l.near(image, credentials)
	if !ok {
		keys = l.top(len(credentials))
	}
	auth = make(map[string]plugin.AuthConfig, len(keys))
	for i, key := range keys {
		auth[key] = plugin.AuthConfig{Username: credentials[i].Username, Password: credentials[i].Password}
	}
	return auth, len(credentials) - len(keys)
}

// near gives each credential its own key or, if the next one has that or a
// higher one, the lowest above it with the same host.
func (l ladder) near(image string, credentials []regcred.Credential) (keys []string, ok bool) {
	keys = make([]string, len(credentials))
	at, invalid := location.Parse(image)
	below := ""
	for i := len(credentials) - 1; i >= 0; i-- {
		own := credentials[i].Match
		p, err := location.ParsePattern(own)
		if err != nil || invalid != nil || !p.Match(at) {
			// Docker Hub's key serves its images without matching them, if no key matches.
			return []string{own}, own == location.HubKey && len(credentials) == 1
		}
		r := rung{n: len(p.Location.Path)}
		r.host, _, _ = strings.Cut(own, "/")
		for l.text(r) <= below {
			if r.n++; r.n > len(l.path) {
				return nil, false
			}
		}
		below, keys[i] = l.text(r), l.key(r)
	}
	return keys, true
}

// top gives n credentials the highest keys of the image's own host.
func (l ladder) top(n int) (keys []string) {
	for at := len(l.path); at >= 0 && len(keys) < n; at-- {
		if at != 1 { // which is none
			keys = append(keys, l.key(rung{l.host, at}))
		}
	}
	return keys
}
