// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"strconv"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
)

// wire is an entry in a file.
type wire struct {
	Name                 string      `json:"name"`
	MatchImages          []string    `json:"matchImages"`
	DefaultCacheDuration string      `json:"defaultCacheDuration"`
	APIVersion           string      `json:"apiVersion"`
	TokenAttributes      *wireTokens `json:"tokenAttributes,omitempty"`
}

// wireTokens omits empty fields, because kubelet 1.33 rejects a cacheType.
type wireTokens struct {
	Audience     string                `json:"serviceAccountTokenAudience"`
	CacheType    config.TokenCacheType `json:"cacheType,omitempty"`
	Require      *bool                 `json:"requireServiceAccount,omitempty"`
	RequiredKeys []string              `json:"requiredServiceAccountAnnotationKeys,omitempty"`
	OptionalKeys []string              `json:"optionalServiceAccountAnnotationKeys,omitempty"`
}

func (e *Entry) wire() wire {
	w := wire{Name: e.Name, MatchImages: e.MatchImages, DefaultCacheDuration: "0s", APIVersion: e.APIVersion}
	if t := e.TokenAttributes; t != nil {
		w.TokenAttributes = &wireTokens{
			t.ServiceAccountTokenAudience, t.CacheType, t.RequireServiceAccount,
			t.RequiredServiceAccountAnnotationKeys, t.OptionalServiceAccountAnnotationKeys,
		}
	}
	return w
}

func newItems(list []Entry) []textedit.NewItem {
	items := make([]textedit.NewItem, len(list))
	for i := range list {
		items[i] = textedit.NewItem{Lines: list[i].lines(), Value: list[i].wire()}
	}
	return items
}

// lines returns e as an item of a block sequence in YAML, without indentation.
func (e *Entry) lines() []string {
	w := e.wire()
	list := append([]string{"- name: " + w.Name, "  matchImages:"}, items("  ", w.MatchImages)...)
	list = append(list, "  defaultCacheDuration: "+textedit.EncodeJSON(w.DefaultCacheDuration, "", ""), "  apiVersion: "+w.APIVersion)
	t := w.TokenAttributes
	if t == nil {
		return list
	}
	list = append(list, "  tokenAttributes:", "    serviceAccountTokenAudience: "+textedit.EncodeJSON(t.Audience, "", ""))
	if t.CacheType != "" {
		list = append(list, "    cacheType: "+textedit.EncodeJSON(t.CacheType, "", ""))
	}
	if t.Require != nil {
		list = append(list, "    requireServiceAccount: "+strconv.FormatBool(*t.Require))
	}
	if len(t.RequiredKeys) > 0 {
		list = append(append(list, "    requiredServiceAccountAnnotationKeys:"), items("    ", t.RequiredKeys)...)
	}
	if len(t.OptionalKeys) > 0 {
		list = append(append(list, "    optionalServiceAccountAnnotationKeys:"), items("    ", t.OptionalKeys)...)
	}
	return list
}

// items writes a list of quoted strings, which every YAML version reads as
// strings. JSON quoting is valid in YAML.
func items(indent string, texts []string) []string {
	list := make([]string, len(texts))
	for i, s := range texts {
		list[i] = indent + "- " + textedit.EncodeJSON(s, "", "")
	}
	return list
}

// created returns the text of a new file.
func created(list []Entry) []byte {
	doc := struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Providers  []wire `json:"providers"`
	}{config.V1, config.Kind, nil}
	for _, e := range list {
		doc.Providers = append(doc.Providers, e.wire())
	}
	return []byte(textedit.EncodeJSON(doc, "", "  ") + "\n")
}
