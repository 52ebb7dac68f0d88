// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package generate

import (
	"maps"
	"math/rand/v2"

	"github.com/regcred/regcred/upstream/corpus"
)

// RandomIdentity returns an identity that consists of few different letters, so that two identities
// are often nearly equal.
func RandomIdentity(r *rand.Rand) corpus.Identity {
	word := func() string { return PickElement(r, []string{"", "a", "b", "aa", "ab", "\x00", "\x00\x01a", "token"}) }
	id := corpus.Identity{
		Image: PickElement(r, []string{"registry.io/app", "registry.io/app", "registry.io/b"}), Namespace: word(), Name: word(), UID: word(),
		Token: "canary-token-4b1d" + PickElement(r, []string{"", "-2"}), Annotations: map[string]string{},
	}
	for range r.IntN(3) {
		id.Annotations[PickElement(r, []string{"a", "b", "aa"})] = word()
	}
	if OneIn(r, 40) {
		id.NameLength = 65_535 - r.IntN(60) + r.IntN(3)
	}
	if OneIn(r, 40) {
		id.AnnotationLength = 65_535 - r.IntN(60) + r.IntN(3)
	}
	return id.ExpandLengths()
}

// VaryIdentity returns id with at most one field changed.
func VaryIdentity(r *rand.Rand, id corpus.Identity) corpus.Identity {
	other := RandomIdentity(r)
	id.Annotations = maps.Clone(id.Annotations)
	switch r.IntN(8) {
	case 0:
		id.Image = other.Image
	case 1:
		id.Namespace = other.Namespace
	case 2:
		id.Name = other.Name
	case 3:
		id.UID = other.UID
	case 4:
		id.Annotations = other.Annotations
	case 5:
		id.Token = other.Token
	case 6:
		return other
	}
	return id
}
