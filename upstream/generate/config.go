// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package generate

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/regcred/regcred/upstream/corpus"
)

var configFragments = []string{
	"\n", ": ", "- ", "  ", "\t", "\r", "#", "---\n", "...\n", "\ufeff", "\"", "'", "[", "]", "{", "}", ",", "null", "~", "yes", "no", "0", "1", "1.5", "1h", "-1s", "0s",
	"&a ", "*a", "<<: ", "!!str ", "|", ">", "? ", "% ", "@", "`", "\\", "/", "..", "*.io", "%zz", "https://", "name", "matchImages", "defaultCacheDuration", "apiVersion", "kind",
	"env", "args", "tokenAttributes", "cacheType", "Token", "ServiceAccount", "v1", "v1beta1", "v1alpha1", "\x00", "\xff", "é", "\u2028", "\\u0061", "extra: 1\n", "\"extra\":1,",
}

// SmallConfigs returns the corpus's single files below 2 KB. Larger files are slow; the vectors
// cover them.
func SmallConfigs() (out []string) {
	for _, c := range corpus.Configs() {
		if !c.IsDir && len(c.Files[0].Content) < 2000 && c.Files[0].Content != "" && c.Name != "bomb" {
			out = append(out, string(c.Files[0].Content))
		}
	}
	return out
}

// randomConfigText returns the text of a configuration. It generates the text field by field,
// combines lines of two files of the corpus, or changes bytes of a file.
func randomConfigText(r *rand.Rand, list []string) string {
	if OneIn(r, 2) {
		text := randomConfig(r)
		if OneIn(r, 8) {
			text = MutateBytes(r, text, configFragments)
		}
		return text
	}
	text := PickElement(r, list)
	switch r.IntN(4) {
	case 0:
		lines, other := strings.SplitAfter(text, "\n"), strings.SplitAfter(PickElement(r, list), "\n")
		at, from := r.IntN(len(lines)), r.IntN(len(other))
		lines = slices.Insert(lines, at, other[from:]...)
		text = strings.Join(lines, "")
	case 1:
		lines := strings.SplitAfter(text, "\n")
		at := r.IntN(len(lines))
		text = strings.Join(slices.Delete(lines, at, at+1), "")
	case 2:
		return text
	}
	if OneIn(r, 2) {
		text = MutateBytes(r, text, configFragments)
	}
	return text
}

// randomConfig generates a configuration field by field. Nearly all fields are valid, so that the
// tests reach the stages after decoding.
func randomConfig(r *rand.Rand) string {
	const rare = 60
	version := PickMostlyFrom(r, rare, []string{"v1", "v1", "v1beta1", "v1alpha1"}, []string{"v2", "V1", ""})
	var list []any
	for i := range r.IntN(4) {
		list = append(list, randomProvider(r, i, version == "v1"))
	}
	doc := map[string]any{"apiVersion": "kubelet.config.k8s.io/" + version, "kind": PickMostlyFrom(r, rare, []string{"CredentialProviderConfig"}, []string{"KubeletConfiguration", "x"}), "providers": list}
	if OneIn(r, 2) {
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

func randomProvider(r *rand.Rand, i int, tokens bool) map[string]any {
	const rare = 60
	var images []string
	for range 1 + r.IntN(3) {
		images = append(images, PickMostlyFrom(r, rare, []string{"registry.io", "*.io", "a.b/c", "*:5000", "u@a", "https://a"}, []string{"%zz", "a:x", "a b", "\x01", ""}))
	}
	p := map[string]any{
		"name":                 PickMostlyFrom(r, rare, []string{fmt.Sprintf("one%d", i)}, []string{"", "a/b", "a b", ".", "..", `a\b`, "one0", "é"}),
		"matchImages":          images,
		"defaultCacheDuration": PickMostlyFrom(r, rare, []string{"1h", "0s", "0", "1h30m", "1.5h"}, []string{"-1h", "", "x", "1d"}),
		"apiVersion":           PickMostlyFrom(r, rare, corpus.Versions, []string{"", "v1", corpus.Versions[0] + "x"}),
	}
	if OneIn(r, 3) {
		p["args"] = []any{PickElement(r, []string{"a", "", "--x=y"}), PickMostlyFrom(r, rare, []any{"b"}, []any{1, nil, true})}
	}
	if OneIn(r, 3) {
		p["env"] = []any{map[string]any{"name": "A", "value": PickMostlyFrom(r, rare, []any{"b", ""}, []any{1, nil})}}
	}
	if tokens && OneIn(r, 2) {
		p["apiVersion"] = PickMostlyFrom(r, 10, corpus.Versions[:1], corpus.Versions)
		p["tokenAttributes"] = randomTokenAttributes(r)
	}
	for _, k := range []string{"name", "matchImages", "defaultCacheDuration", "apiVersion"} {
		if OneIn(r, 100) {
			delete(p, k)
		}
	}
	if OneIn(r, 100) {
		p[PickElement(r, []string{"extra", "Name", "matchimages"})] = nil
	}
	return p
}

func randomTokenAttributes(r *rand.Rand) map[string]any {
	const rare = 20
	keys := func() (out []string) {
		for range r.IntN(3) {
			out = append(out, PickMostlyFrom(r, rare, []string{"a", "b", "c", "d", "example.com/a", "A.b/C"}, []string{"", "a b", "/a", "a/b/c", "-"}))
		}
		return out
	}
	t := map[string]any{
		"serviceAccountTokenAudience": PickMostlyFrom(r, rare, []string{"registry.io"}, []string{""}),
		"cacheType":                   PickMostlyFrom(r, rare, []string{"Token", "ServiceAccount"}, []string{"", "token"}),
		"requireServiceAccount":       PickMostlyFrom(r, rare, []any{true, true, false}, []any{nil}),
	}
	if OneIn(r, 4) { // without cacheType it is only valid in kubelet 1.33
		delete(t, "cacheType")
	}
	if OneIn(r, 2) {
		t["requiredServiceAccountAnnotationKeys"] = keys()
	}
	if OneIn(r, 2) {
		t["optionalServiceAccountAnnotationKeys"] = keys()
	}
	return t
}

var configFileNames = []string{"a.yaml", "b.yml", "c.json", ".d.yaml", "e.txt", "Z.yaml", "10.yaml", "9.yaml"}

// RandomConfig generates a file or a directory with up to three files. list contains the texts of
// [SmallConfigs].
func RandomConfig(r *rand.Rand, list []string) corpus.Config {
	if !OneIn(r, 3) {
		return corpus.Config{Files: []corpus.File{{Name: "config.yaml", Content: corpus.RawString(randomConfigText(r, list))}}}
	}
	c := corpus.Config{IsDir: true}
	for i, at := range r.Perm(len(configFileNames))[:1+r.IntN(3)] {
		// Rename the providers. Otherwise most directories would be rejected because of duplicate
		// names.
		text := strings.ReplaceAll(randomConfigText(r, list), "one", fmt.Sprintf("one%d", i))
		c.Files = append(c.Files, corpus.File{Name: configFileNames[at], Content: corpus.RawString(text)})
	}
	return c
}
