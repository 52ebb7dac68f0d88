// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"strconv"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
)

// Document is a CredentialProviderConfig to write.
type Document struct {
	APIVersion string           `json:"apiVersion" yaml:"apiVersion"`
	Kind       string           `json:"kind" yaml:"kind"`
	Providers  []ProviderFields `json:"providers" yaml:"providers"`
}

// ProviderFields are the fields of a provider to write, without empty ones and with args and env in
// clear text.
type ProviderFields struct {
	Name                 string           `json:"name" yaml:"name"`
	MatchImages          []string         `json:"matchImages,omitempty" yaml:"matchImages,omitempty"`
	DefaultCacheDuration string           `json:"defaultCacheDuration,omitempty" yaml:"defaultCacheDuration,omitempty"`
	APIVersion           string           `json:"apiVersion,omitempty" yaml:"apiVersion,omitempty"`
	Args                 []string         `json:"args,omitempty" yaml:"args,omitempty"`
	Env                  []envVar         `json:"env,omitempty" yaml:"env,omitempty"`
	TokenAttributes      *tokenAttributes `json:"tokenAttributes,omitempty" yaml:"tokenAttributes,omitempty"`
}

type envVar struct {
	Name  string `json:"name" yaml:"name"`
	Value string `json:"value" yaml:"value"`
}

// tokenAttributes omits an empty cacheType, because kubelet 1.33 rejects the field.
type tokenAttributes struct {
	Audience              string                `json:"serviceAccountTokenAudience,omitempty" yaml:"serviceAccountTokenAudience,omitempty"`
	CacheType             config.TokenCacheType `json:"cacheType,omitempty" yaml:"cacheType,omitempty"`
	RequireServiceAccount *bool                 `json:"requireServiceAccount,omitempty" yaml:"requireServiceAccount,omitempty"`
	RequiredKeys          []string              `json:"requiredServiceAccountAnnotationKeys,omitempty" yaml:"requiredServiceAccountAnnotationKeys,omitempty"`
	OptionalKeys          []string              `json:"optionalServiceAccountAnnotationKeys,omitempty" yaml:"optionalServiceAccountAnnotationKeys,omitempty"`
}

// NewDocument returns a CredentialProviderConfig with these providers.
func NewDocument(providers []config.Provider) Document {
	doc := Document{APIVersion: config.V1, Kind: config.Kind, Providers: []ProviderFields{}}
	for _, p := range providers {
		doc.Providers = append(doc.Providers, newProviderFields(p))
	}
	return doc
}

func newProviderFields(p config.Provider) ProviderFields {
	f := ProviderFields{Name: p.Name, MatchImages: p.MatchImages, APIVersion: p.APIVersion, Args: p.Arguments()}
	if p.DefaultCacheDuration != nil {
		f.DefaultCacheDuration = formatDuration(*p.DefaultCacheDuration)
	}
	for _, v := range p.Env {
		f.Env = append(f.Env, envVar{v.Name, v.Value.Reveal()})
	}
	if t := p.TokenAttributes; t != nil {
		f.TokenAttributes = &tokenAttributes{
			t.ServiceAccountTokenAudience, t.CacheType, t.RequireServiceAccount,
			t.RequiredServiceAccountAnnotationKeys, t.OptionalServiceAccountAnnotationKeys,
		}
	}
	return f
}

// formatDuration formats a duration without trailing zero units.
func formatDuration(d time.Duration) string {
	s := d.String()
	for _, zeros := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zeros) {
			s = s[:len(s)-2]
		}
	}
	return s
}

func newListItems(list []Entry) []textedit.ListItem {
	items := make([]textedit.ListItem, len(list))
	for i := range list {
		items[i] = textedit.ListItem{Lines: list[i].yamlLines(), Value: newProviderFields(list[i].Provider())}
	}
	return items
}

// yamlLines returns e as an item of a block sequence in YAML, without indentation.
func (e *Entry) yamlLines() []string {
	w := newProviderFields(e.Provider())
	list := append([]string{"- name: " + w.Name, "  matchImages:"}, quotedList("  ", w.MatchImages)...)
	list = append(list, "  defaultCacheDuration: "+textedit.EncodeJSON(w.DefaultCacheDuration, "", ""), "  apiVersion: "+w.APIVersion)
	t := w.TokenAttributes
	if t == nil {
		return list
	}
	list = append(list, "  tokenAttributes:", "    serviceAccountTokenAudience: "+textedit.EncodeJSON(t.Audience, "", ""))
	if t.CacheType != "" {
		list = append(list, "    cacheType: "+textedit.EncodeJSON(t.CacheType, "", ""))
	}
	if t.RequireServiceAccount != nil {
		list = append(list, "    requireServiceAccount: "+strconv.FormatBool(*t.RequireServiceAccount))
	}
	if len(t.RequiredKeys) > 0 {
		list = append(append(list, "    requiredServiceAccountAnnotationKeys:"), quotedList("    ", t.RequiredKeys)...)
	}
	if len(t.OptionalKeys) > 0 {
		list = append(append(list, "    optionalServiceAccountAnnotationKeys:"), quotedList("    ", t.OptionalKeys)...)
	}
	return list
}

// quotedList returns the lines of a YAML list of quoted strings. Because of the quotes,
// every YAML version reads them as strings. JSON quoting is valid in YAML.
func quotedList(indent string, texts []string) []string {
	list := make([]string, len(texts))
	for i, s := range texts {
		list[i] = indent + "- " + textedit.EncodeJSON(s, "", "")
	}
	return list
}

func newFileText(list []Entry) []byte {
	return []byte(textedit.EncodeJSON(NewDocument(toProviders(list)), "", "  ") + "\n")
}
