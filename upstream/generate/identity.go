// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package generate

import (
	"maps"
	"math/rand/v2"

	"github.com/regcred/regcred/upstream/corpus"
)

// Identity uses few letters, so that two identities nearly collide.
func Identity(r *rand.Rand) corpus.Identity {
	word := func() string { return Pick(r, []string{"", "a", "b", "aa", "ab", "\x00", "\x00\x01a", "token"}) }
	id := corpus.Identity{
		Image: Pick(r, []string{"registry.io/app", "registry.io/app", "registry.io/b"}), Namespace: word(), Name: word(), UID: word(),
		Token: "canary-token-4b1d" + Pick(r, []string{"", "-2"}), Annotations: map[string]string{},
	}
	for range r.IntN(3) {
		id.Annotations[Pick(r, []string{"a", "b", "aa"})] = word()
	}
	if One(r, 40) {
		id.NameLength = 65_535 - r.IntN(60) + r.IntN(3)
	}
	if One(r, 40) {
		id.AnnotationLength = 65_535 - r.IntN(60) + r.IntN(3)
	}
	return id.Expand()
}

// Vary changes at most one field.
func Vary(r *rand.Rand, id corpus.Identity) corpus.Identity {
	other := Identity(r)
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
