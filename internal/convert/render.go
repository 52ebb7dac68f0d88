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

// document is a configuration to write.
type document struct {
	APIVersion string  `json:"apiVersion" yaml:"apiVersion"`
	Kind       string  `json:"kind" yaml:"kind"`
	Providers  []entry `json:"providers" yaml:"providers"`
}

// entry is a provider to write, without empty fields and with args and env in
// clear text.
type entry struct {
	Name                 string           `json:"name" yaml:"name"`
	MatchImages          []string         `json:"matchImages,omitempty" yaml:"matchImages,omitempty"`
	DefaultCacheDuration string           `json:"defaultCacheDuration,omitempty" yaml:"defaultCacheDuration,omitempty"`
	APIVersion           string           `json:"apiVersion,omitempty" yaml:"apiVersion,omitempty"`
	Args                 []string         `json:"args,omitempty" yaml:"args,omitempty"`
	Env                  []variable       `json:"env,omitempty" yaml:"env,omitempty"`
	TokenAttributes      *tokenAttributes `json:"tokenAttributes,omitempty" yaml:"tokenAttributes,omitempty"`

	outOfTree bool // of the out-of-tree proposal
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

func newEntry(p config.Provider, outOfTree bool) entry {
	e := entry{Name: p.Name, MatchImages: p.MatchImages, APIVersion: p.APIVersion, outOfTree: outOfTree}
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

// duration formats a duration without trailing zero units.
func duration(d time.Duration) string {
	s := d.String()
	for _, zeros := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zeros) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// render returns the text of a document, or nothing if it cannot be encoded,
// which the check of the result then finds.
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
		if e.outOfTree {
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
// out-of-tree proposal gets.
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

// quote quotes strings that some YAML version would read as another type.
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

// plainText matches words that begin with a letter, and durations.
var plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9./_-]*$|^[0-9]+(\.[0-9]+)?(h|m|s)[0-9.hms]*$`)

func isPlain(s string) bool {
	words := []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
	return plainText.MatchString(s) && !slices.Contains(words, strings.ToLower(s))
}
