// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/regcred/regcred/upstream/corpus"
)

// mostly picks from good, and once in n times from bad.
func mostly[T any](r *rand.Rand, n int, good, bad []T) T {
	if one(r, n) {
		return pick(r, bad)
	}
	return pick(r, good)
}

// structured makes a configuration field by field. Nearly all fields are
// valid, so that the stages behind decoding are reached.
func structured(r *rand.Rand) string {
	const rare = 60
	version := mostly(r, rare, []string{"v1", "v1", "v1beta1", "v1alpha1"}, []string{"v2", "V1", ""})
	var list []any
	for i := range r.IntN(4) {
		list = append(list, structuredProvider(r, i, version == "v1"))
	}
	doc := map[string]any{"apiVersion": "kubelet.config.k8s.io/" + version, "kind": mostly(r, rare, []string{"CredentialProviderConfig"}, []string{"KubeletConfiguration", "x"}), "providers": list}
	if one(r, 2) {
		out, _ := json.Marshal(doc)
		return string(out)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "kind: %s\napiVersion: %s\nproviders:\n", doc["kind"], doc["apiVersion"])
	for _, p := range list {
		sep := "- "
		m := p.(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out, _ := json.Marshal(m[k])
			fmt.Fprintf(&b, "%s%s: %s\n", sep, k, out)
			sep = "  "
		}
	}
	return b.String()
}

func structuredProvider(r *rand.Rand, i int, tokens bool) map[string]any {
	const rare = 60
	var images []string
	for range 1 + r.IntN(3) {
		images = append(images, mostly(r, rare, []string{"registry.io", "*.io", "a.b/c", "*:5000", "u@a", "https://a"}, []string{"%zz", "a:x", "a b", "\x01", ""}))
	}
	p := map[string]any{
		"name":                 mostly(r, rare, []string{fmt.Sprintf("one%d", i)}, []string{"", "a/b", "a b", ".", "..", `a\b`, "one0", "é"}),
		"matchImages":          images,
		"defaultCacheDuration": mostly(r, rare, []string{"1h", "0s", "0", "1h30m", "1.5h"}, []string{"-1h", "", "x", "1d"}),
		"apiVersion":           mostly(r, rare, corpus.Versions, []string{"", "v1", corpus.Versions[0] + "x"}),
	}
	if one(r, 3) {
		p["args"] = []any{pick(r, []string{"a", "", "--x=y"}), mostly(r, rare, []any{"b"}, []any{1, nil, true})}
	}
	if one(r, 3) {
		p["env"] = []any{map[string]any{"name": "A", "value": mostly(r, rare, []any{"b", ""}, []any{1, nil})}}
	}
	if tokens && one(r, 2) {
		p["apiVersion"] = mostly(r, 10, corpus.Versions[:1], corpus.Versions)
		p["tokenAttributes"] = structuredTokens(r)
	}
	for _, k := range []string{"name", "matchImages", "defaultCacheDuration", "apiVersion"} {
		if one(r, 100) {
			delete(p, k)
		}
	}
	if one(r, 100) {
		p[pick(r, []string{"extra", "Name", "matchimages"})] = nil
	}
	return p
}

func structuredTokens(r *rand.Rand) map[string]any {
	const rare = 20
	keys := func() (out []string) {
		for range r.IntN(3) {
			out = append(out, mostly(r, rare, []string{"a", "b", "c", "d", "example.com/a", "A.b/C"}, []string{"", "a b", "/a", "a/b/c", "-"}))
		}
		return out
	}
	t := map[string]any{
		"serviceAccountTokenAudience": mostly(r, rare, []string{"registry.io"}, []string{""}),
		"cacheType":                   mostly(r, rare, []string{"Token", "ServiceAccount"}, []string{"", "token"}),
		"requireServiceAccount":       mostly(r, rare, []any{true, true, false}, []any{nil}),
	}
	if one(r, 2) {
		t["requiredServiceAccountAnnotationKeys"] = keys()
	}
	if one(r, 2) {
		t["optionalServiceAccountAnnotationKeys"] = keys()
	}
	return t
}
