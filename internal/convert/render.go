// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
)

// document is a configuration as it is written.
type document struct {
	APIVersion text    `json:"apiVersion" yaml:"apiVersion"`
	Kind       text    `json:"kind" yaml:"kind"`
	Providers  []entry `json:"providers" yaml:"providers"`
}

// entry is a provider as it is written: without what is empty, and with values
// of args and env in clear.
type entry struct {
	Name                 text             `json:"name" yaml:"name"`
	MatchImages          []text           `json:"matchImages,omitempty" yaml:"matchImages,omitempty"`
	DefaultCacheDuration text             `json:"defaultCacheDuration,omitempty" yaml:"defaultCacheDuration,omitempty"`
	APIVersion           text             `json:"apiVersion,omitempty" yaml:"apiVersion,omitempty"`
	Args                 []text           `json:"args,omitempty" yaml:"args,omitempty"`
	Env                  []variable       `json:"env,omitempty" yaml:"env,omitempty"`
	TokenAttributes      *tokenAttributes `json:"tokenAttributes,omitempty" yaml:"tokenAttributes,omitempty"`

	former bool // it was one of the predecessor
}

type variable struct {
	Name  text `json:"name" yaml:"name"`
	Value text `json:"value" yaml:"value"`
}

type tokenAttributes struct {
	Audience              text   `json:"serviceAccountTokenAudience,omitempty" yaml:"serviceAccountTokenAudience,omitempty"`
	CacheType             text   `json:"cacheType,omitempty" yaml:"cacheType,omitempty"`
	RequireServiceAccount *bool  `json:"requireServiceAccount,omitempty" yaml:"requireServiceAccount,omitempty"`
	RequiredKeys          []text `json:"requiredServiceAccountAnnotationKeys,omitempty" yaml:"requiredServiceAccountAnnotationKeys,omitempty"`
	OptionalKeys          []text `json:"optionalServiceAccountAnnotationKeys,omitempty" yaml:"optionalServiceAccountAnnotationKeys,omitempty"`
}

func newEntry(p config.Provider, former bool) entry {
	e := entry{Name: text(p.Name), MatchImages: texts(p.MatchImages), APIVersion: text(p.APIVersion), former: former}
	if p.DefaultCacheDuration != nil {
		e.DefaultCacheDuration = duration(*p.DefaultCacheDuration)
	}
	for _, arg := range p.Args {
		e.Args = append(e.Args, text(arg.Reveal()))
	}
	for _, v := range p.Env {
		e.Env = append(e.Env, variable{text(v.Name), text(v.Value.Reveal())})
	}
	if t := p.TokenAttributes; t != nil {
		e.TokenAttributes = &tokenAttributes{
			Audience:              text(t.ServiceAccountTokenAudience),
			CacheType:             text(t.CacheType),
			RequireServiceAccount: t.RequireServiceAccount,
			RequiredKeys:          texts(t.RequiredServiceAccountAnnotationKeys),
			OptionalKeys:          texts(t.OptionalServiceAccountAnnotationKeys),
		}
	}
	return e
}

func texts(list []string) []text {
	var out []text
	for _, s := range list {
		out = append(out, text(s))
	}
	return out
}

// duration returns a duration without the zeros at its end.
func duration(d time.Duration) text {
	s := d.String()
	for _, zeros := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zeros) {
			s = s[:len(s)-2]
		}
	}
	return text(s)
}

// render writes a document. One that cannot be written is empty, and then is
// found not to say what it should.
func (d document) render(format Format) []byte {
	var out bytes.Buffer
	if format == JSON {
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if enc.Encode(d) != nil {
			return nil
		}
		return out.Bytes()
	}
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if enc.Encode(d) != nil || enc.Close() != nil {
		return nil
	}
	return out.Bytes()
}

// zeroCacheComment explains the defaultCacheDuration that a provider of the
// predecessor gets.
const zeroCacheComment = `# The predecessor kept an answer until its expirationTimestamp, and not at all
# without one. 0s is the same with today's cacheDuration; a longer time is
# for answers that have none.`

// MarshalYAML returns the entry, with that comment if it has to be explained.
func (e entry) MarshalYAML() (any, error) {
	type plain entry
	if !e.former {
		return plain(e), nil
	}
	var n yaml.Node
	if err := n.Encode(plain(e)); err != nil {
		return nil, err
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Value == "defaultCacheDuration" {
			key.HeadComment = zeroCacheComment
		}
	}
	return &n, nil
}

// text is a string that no version of YAML takes for anything else.
type text string

// MarshalYAML quotes the text, unless it need not be.
func (t text) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(t)}
	if !isPlain(string(t)) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n, nil
}

// plainText begins with a letter, or is a duration.
var plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9./_-]*$|^[0-9]+(\.[0-9]+)?(h|m|s)[0-9.hms]*$`)

func isPlain(s string) bool {
	words := []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
	return plainText.MatchString(s) && !slices.Contains(words, strings.ToLower(s))
}
