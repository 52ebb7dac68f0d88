// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"strconv"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
)

// wire is an entry as it is written in a file.
type wire struct {
	Name                 string      `json:"name"`
	MatchImages          []string    `json:"matchImages"`
	DefaultCacheDuration string      `json:"defaultCacheDuration"`
	APIVersion           string      `json:"apiVersion"`
	TokenAttributes      *wireTokens `json:"tokenAttributes,omitempty"`
}

// wireTokens are tokenAttributes without what is empty: kubelet 1.33 refuses a
// cacheType.
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

// lines writes e as an item of a block sequence in YAML, without indentation.
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

// items writes a list of texts. In quotes no version of YAML takes one for
// anything else; what is quoted for JSON is quoted for YAML.
func items(indent string, texts []string) []string {
	list := make([]string, len(texts))
	for i, s := range texts {
		list[i] = indent + "- " + textedit.EncodeJSON(s, "", "")
	}
	return list
}

// created is the text of a file that there was not.
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
