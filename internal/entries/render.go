// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/regcred/regcred/config"
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

// encode writes JSON: on one line if the indentation of a level is "", else
// over several, of which all but the first begin with a prefix.
func encode(v any, prefix, indent string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, indent)
	_ = enc.Encode(v) // strings and booleans are always encoded
	return strings.TrimSuffix(b.String(), "\n")
}

// lines writes e as an item of a block sequence in YAML, without indentation.
func (e *Entry) lines() []string {
	w := e.wire()
	list := append([]string{"- name: " + w.Name, "  matchImages:"}, items("  ", w.MatchImages)...)
	list = append(list, "  defaultCacheDuration: "+encode(w.DefaultCacheDuration, "", ""), "  apiVersion: "+w.APIVersion)
	t := w.TokenAttributes
	if t == nil {
		return list
	}
	list = append(list, "  tokenAttributes:", "    serviceAccountTokenAudience: "+encode(t.Audience, "", ""))
	if t.CacheType != "" {
		list = append(list, "    cacheType: "+encode(t.CacheType, "", ""))
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
		list[i] = indent + "- " + encode(s, "", "")
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
	return []byte(encode(doc, "", "  ") + "\n")
}
