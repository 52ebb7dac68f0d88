// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package corpus

import "strings"

// Identity identifies the pod and service account for which a provider with
// tokenAttributes is called.
type Identity struct {
	Image       string            `json:"image"`
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"` // name of the service account; "" for a pod without a service account
	UID         string            `json:"uid"`
	Annotations map[string]string `json:"annotations,omitempty"` // the annotations that the provider selects
	Token       string            `json:"token"`
	// NameLength and the other lengths stand for values that repeat a letter. This keeps the
	// vectors with long values small.
	NameLength       int `json:"nameLength,omitempty"`
	UIDLength        int `json:"uidLength,omitempty"`
	AnnotationLength int `json:"annotationLength,omitempty"` // length of an annotation called "long"
	SecondLength     int `json:"secondLength,omitempty"`     // length of an annotation called "second"
}

// ExpandLengths returns the identity with the long values that its lengths stand for.
func (id Identity) ExpandLengths() Identity {
	if id.NameLength > 0 {
		id.Name = strings.Repeat("n", id.NameLength)
	}
	if id.UIDLength > 0 {
		id.UID = strings.Repeat("u", id.UIDLength)
	}
	annotations := map[string]string{}
	for k, v := range id.Annotations {
		annotations[k] = v
	}
	if id.AnnotationLength > 0 {
		annotations["long"] = strings.Repeat("a", id.AnnotationLength)
	}
	if id.SecondLength > 0 {
		annotations["second"] = strings.Repeat("b", id.SecondLength)
	}
	id.Annotations = annotations
	id.NameLength, id.UIDLength, id.AnnotationLength, id.SecondLength = 0, 0, 0, 0
	return id
}

// CacheKeyCase tests whether B may use a response cached for A with this cacheType.
type CacheKeyCase struct {
	CacheType string   `json:"cacheType"`
	A         Identity `json:"a"`
	B         Identity `json:"b"`
}

// CacheKeyCases returns the cases for cachekey.json: all pairs of a list of identities.
func CacheKeyCases() []CacheKeyCase {
	id := func(change func(*Identity)) Identity {
		i := Identity{Image: "registry.io/app", Namespace: "ns", Name: "sa", UID: "1", Token: plantedToken}
		change(&i)
		return i
	}
	notes := func(m map[string]string) Identity { return id(func(i *Identity) { i.Annotations = m }) }
	list := []Identity{
		id(func(*Identity) {}),
		id(func(i *Identity) { i.Token += "-2" }),
		id(func(i *Identity) { i.Token = "" }),
		id(func(i *Identity) { i.Image = "registry.io/other" }),
		id(func(i *Identity) { i.Namespace, i.Name = "n", "ssa" }),
		id(func(i *Identity) { i.Namespace, i.Name = "nssa", "" }),
		id(func(i *Identity) { i.Namespace, i.Name = "", "nssa" }),
		id(func(i *Identity) { i.Name, i.UID = "sa1", "" }),
		id(func(i *Identity) { i.Name, i.UID = "s", "a1" }),
		id(func(i *Identity) { i.Name = "SA" }),
		notes(map[string]string{"a": "b"}), notes(map[string]string{"a": ""}), notes(map[string]string{"a": "b", "c": "d"}),
		notes(map[string]string{"ab": ""}), notes(map[string]string{"a": "bc", "d": ""}), notes(map[string]string{"a": "b", "cd": ""}), notes(map[string]string{"a": "bcd"}),
		// The longest name with which the cache key of a service account has at most 65,535 bytes,
		// and a name that is one byte longer. Then the same for a cache key with a token's hash.
		id(func(i *Identity) { i.NameLength = 65522 }), id(func(i *Identity) { i.NameLength = 65523 }),
		id(func(i *Identity) { i.NameLength = 65442 }), id(func(i *Identity) { i.NameLength = 65443 }),
		id(func(i *Identity) { i.NameLength = 65535 }), id(func(i *Identity) { i.NameLength = 65536 }),
		id(func(i *Identity) { i.UIDLength = 65536 }), id(func(i *Identity) { i.AnnotationLength = 65535 }), id(func(i *Identity) { i.AnnotationLength = 65536 }),
		id(func(i *Identity) { i.AnnotationLength = 65000 }), id(func(i *Identity) { i.AnnotationLength, i.SecondLength = 32000, 32000 }), id(func(i *Identity) { i.AnnotationLength, i.SecondLength = 40000, 40000 }),
	}
	var all []CacheKeyCase
	for _, cacheType := range []string{"ServiceAccount", "Token"} {
		for i, a := range list {
			for _, b := range list[i:] {
				all = append(all, CacheKeyCase{cacheType, a, b})
			}
		}
	}
	return all
}
