// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
)

// document is a configuration as it is written.
type document struct {
	APIVersion string  `json:"apiVersion" yaml:"apiVersion"`
	Kind       string  `json:"kind" yaml:"kind"`
	Providers  []entry `json:"providers" yaml:"providers"`
}

// entry is a provider as it is written: without what is empty, and with values
// of args and env in clear.
type entry struct {
	Name                 string           `json:"name" yaml:"name"`
	MatchImages          []string         `json:"matchImages,omitempty" yaml:"matchImages,omitempty"`
	DefaultCacheDuration string           `json:"defaultCacheDuration,omitempty" yaml:"defaultCacheDuration,omitempty"`
	APIVersion           string           `json:"apiVersion,omitempty" yaml:"apiVersion,omitempty"`
	Args                 []string         `json:"args,omitempty" yaml:"args,omitempty"`
	Env                  []variable       `json:"env,omitempty" yaml:"env,omitempty"`
	TokenAttributes      *tokenAttributes `json:"tokenAttributes,omitempty" yaml:"tokenAttributes,omitempty"`

	former bool // it was one of the predecessor
}

type variable struct {
	Name  string `json:"name" yaml:"name"`
	Value string `json:"value" yaml:"value"`
}

type tokenAttributes struct {
	Audience              string                `json:"serviceAccountTokenAudience,omitempty" yaml:"serviceAccountTokenAudience,omitempty"`
	CacheType             config.TokenCacheType `json:"cacheType,omitempty" yaml:"cacheType,omitempty"`
	RequireServiceAccount *bool                 `json:"requireServiceAccount,omitempty" yaml:"requireServiceAccount,omitempty"`
	RequiredKeys          []string              `json:"requiredServiceAccountAnnotationKeys,omitempty" yaml:"requiredServiceAccountAnnotationKeys,omitempty"`
	OptionalKeys          []string              `json:"optionalServiceAccountAnnotationKeys,omitempty" yaml:"optionalServiceAccountAnnotationKeys,omitempty"`
}

func newEntry(p config.Provider, former bool) entry {
	e := entry{Name: p.Name, MatchImages: p.MatchImages, APIVersion: p.APIVersion, former: former}
	if p.DefaultCacheDuration != nil {
		e.DefaultCacheDuration = duration(*p.DefaultCacheDuration)
	}
	for _, arg := range p.Args {
		e.Args = append(e.Args, arg.Reveal())
	}
	for _, v := range p.Env {
		e.Env = append(e.Env, variable{v.Name, v.Value.Reveal()})
	}
	if t := p.TokenAttributes; t != nil {
		e.TokenAttributes = &tokenAttributes{
			t.ServiceAccountTokenAudience, t.CacheType, t.RequireServiceAccount,
			t.RequiredServiceAccountAnnotationKeys, t.OptionalServiceAccountAnnotationKeys,
		}
	}
	return e
}

// duration returns a duration without the zeros at its end.
func duration(d time.Duration) string {
	s := d.String()
	for _, zeros := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zeros) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// render writes a document. One that cannot be written is empty, and then is
// found not to say what it should.
func (d document) render(format Format) []byte {
	if format == JSON {
		return []byte(textedit.EncodeJSON(d, "", "  ") + "\n")
	}
	var out bytes.Buffer
	var n yaml.Node
	if n.Encode(d) != nil {
		return nil
	}
	quote(&n)
	for i, e := range d.Providers {
		if e.former {
			explainDuration(textedit.Item(textedit.Field(&n, "providers"), i))
		}
	}
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if enc.Encode(&n) != nil || enc.Close() != nil {
		return nil
	}
	return out.Bytes()
}

// zeroCacheComment explains the defaultCacheDuration that a provider of the
// predecessor gets.
const zeroCacheComment = `# The out-of-tree proposal cached a response until its expirationTimestamp, and
# not at all without one. With cacheDuration, a default of 0s has the same
# effect; a longer duration applies to responses that do not set one.`

func explainDuration(provider *yaml.Node) {
	for i := 0; i < len(provider.Content); i += 2 {
		if key := provider.Content[i]; key.Value == "defaultCacheDuration" {
			key.HeadComment = zeroCacheComment
		}
	}
}

// quote puts texts in quotes that some version of YAML takes for anything else.
func quote(n *yaml.Node) {
	if n.Tag == "!!str" && n.Kind == yaml.ScalarNode {
		n.Style = 0
		if !isPlain(n.Value) {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	for _, child := range n.Content {
		quote(child)
	}
}

// plainText begins with a letter, or is a duration.
var plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9./_-]*$|^[0-9]+(\.[0-9]+)?(h|m|s)[0-9.hms]*$`)

func isPlain(s string) bool {
	words := []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
	return plainText.MatchString(s) && !slices.Contains(words, strings.ToLower(s))
}
