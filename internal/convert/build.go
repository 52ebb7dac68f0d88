// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// zeroCacheComment explains the defaultCacheDuration that a provider of the
// predecessor gets.
const zeroCacheComment = `# The predecessor kept an answer until its expirationTimestamp, and not at all
# without one. 0s is the same with today's cacheDuration; a longer time is
# for answers that have none.`

// top returns the place of a whole file; none if its comments and spelling
// are not to be taken, and none for JSON, which has no comments, and whose
// spelling is not that of YAML.
func (c *conversion) top(f *source) spot {
	if c.bare || f.format == JSON {
		return spot{}
	}
	return f.top()
}

// document returns a whole file of providers, with the comments that f has
// about itself.
func (c *conversion) document(f *source, providers []*yaml.Node) *yaml.Node {
	at := c.top(f)
	list := &yaml.Node{Kind: yaml.SequenceNode, Content: providers}
	m := newMapping(at)
	m.add(at, "apiVersion", text(configV1, spot{}))
	m.add(at, "kind", text(configKind, spot{}))
	m.add(at, "providers", list)
	doc := &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{m.ordered()}}
	if at.value != nil {
		comments(doc, f.document)
	}
	return doc
}

// providers returns those of f, as they are to be.
func (c *conversion) providers(f *source) []*yaml.Node {
	var list []*yaml.Node
	at := c.top(f).field("providers")
	for i, p := range c.want[f.First:][:f.Count] {
		if c.src.Providers[f.First+i].APIVersion == plugin.OutOfTree {
			list = append(list, predecessor(p, at.item(i)))
		} else {
			list = append(list, provider(p, at.item(i)))
		}
	}
	return list
}

// provider returns an entry, with the comments and the spelling of the one at
// a place.
func provider(p config.Provider, at spot) *yaml.Node {
	m := newMapping(at)
	m.add(at, "name", text(p.Name, at.field("name")))
	m.addList(at, "matchImages", p.MatchImages)
	if p.DefaultCacheDuration != nil {
		m.add(at, "defaultCacheDuration", duration(*p.DefaultCacheDuration, at.field("defaultCacheDuration")))
	}
	if p.APIVersion != "" {
		m.add(at, "apiVersion", text(p.APIVersion, at.field("apiVersion")))
	}
	m.addList(at, "args", plain(p.Args))
	if len(p.Env) > 0 {
		m.add(at, "env", variables(p.Env, at.field("env")))
	}
	if p.TokenAttributes != nil {
		m.add(at, "tokenAttributes", tokenAttributes(p.TokenAttributes, at.field("tokenAttributes")))
	}
	return m.ordered()
}

// predecessor returns an entry that is written at a place in the form of the
// predecessor.
func predecessor(p config.Provider, at spot) *yaml.Node {
	m := newMapping(at)
	m.add(at, "name", text(p.Name, at.field("name")))
	m.addList(at, "matchImages", p.MatchImages)
	if p.DefaultCacheDuration != nil {
		key := m.add(spot{}, "defaultCacheDuration", duration(*p.DefaultCacheDuration, spot{}))
		key.HeadComment = zeroCacheComment
	}
	m.add(at, "apiVersion", text(p.APIVersion, at.field("apiVersion")))
	m.addList(spot{}, "args", plain(p.Args))
	if len(p.Env) > 0 {
		m.add(at, "env", extraArgs(p.Env, at.field("extraArgs")))
	}
	return m.ordered()
}

// formerNames are what the predecessor called fields.
var formerNames = map[string]string{"matchImages": "imageMatchers", "env": "extraArgs"}

func tokenAttributes(t *config.TokenAttributes, at spot) *yaml.Node {
	m := newMapping(at)
	if t.ServiceAccountTokenAudience != "" {
		m.add(at, "serviceAccountTokenAudience", text(t.ServiceAccountTokenAudience, at.field("serviceAccountTokenAudience")))
	}
	if t.CacheType != "" {
		m.add(at, "cacheType", text(string(t.CacheType), at.field("cacheType")))
	}
	if t.RequireServiceAccount != nil {
		m.add(at, "requireServiceAccount", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(*t.RequireServiceAccount)})
	}
	m.addList(at, "requiredServiceAccountAnnotationKeys", t.RequiredServiceAccountAnnotationKeys)
	m.addList(at, "optionalServiceAccountAnnotationKeys", t.OptionalServiceAccountAnnotationKeys)
	return m.ordered()
}

// variables returns a list of variables.
func variables(env []config.EnvVar, at spot) *yaml.Node {
	list := newList(at)
	for i, v := range env {
		item := at.item(i)
		m := newMapping(item)
		m.add(item, "name", text(v.Name, item.field("name")))
		m.add(item, "value", text(string(v.Value), item.field("value")))
		list.Content = append(list.Content, m.ordered())
	}
	return list
}

// extraArgs returns a list of variables that the predecessor writes as a list,
// or as a mapping of names in any case to values.
func extraArgs(env []config.EnvVar, at spot) *yaml.Node {
	written := deref(at.value)
	if written == nil || written.Kind != yaml.MappingNode {
		return variables(env, at)
	}
	list := newList(spot{})
	comments(list, at.value)
	for _, v := range env {
		m := newMapping(spot{})
		from := spot{}
		for i := 0; i+1 < len(written.Content); i += 2 {
			if strings.ToUpper(written.Content[i].Value) == v.Name {
				from = spot{written.Content[i], written.Content[i+1]}
			}
		}
		if from.key != nil {
			m.HeadComment, m.FootComment = from.key.HeadComment, from.key.FootComment
		}
		m.add(spot{}, "name", text(v.Name, spot{}))
		m.add(spot{}, "value", text(string(v.Value), from))
		list.Content = append(list.Content, m.ordered())
	}
	return list
}

// mapping is a node under construction, and the lines of its fields in the
// source.
type mapping struct {
	*yaml.Node
	lines []int
}

// newMapping returns an empty one with the comments of a place.
func newMapping(at spot) *mapping {
	n := &yaml.Node{Kind: yaml.MappingNode}
	comments(n, at.value)
	return &mapping{Node: n}
}

// newList returns an empty list with the comments of a place, on one line if
// it is so there.
func newList(at spot) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	comments(n, at.value)
	if from := deref(at.value); from != nil {
		n.Style = from.Style & yaml.FlowStyle
	}
	return n
}

// add adds a field, with the comments that it has in the mapping at a place,
// maybe by its former name. It returns the key.
func (m *mapping) add(at spot, name string, value *yaml.Node) *yaml.Node {
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}
	from := at.named(name)
	comments(key, from.key)
	comments(value, from.value)
	m.Content = append(m.Content, key, value)
	line := 0
	switch {
	case from.key != nil:
		line = from.key.Line
	case len(m.lines) > 0: // a new field stays behind the one that it was added after
		line = m.lines[len(m.lines)-1]
	}
	m.lines = append(m.lines, line)
	return key
}

// ordered returns the mapping with its fields in the order of the source.
func (m *mapping) ordered() *yaml.Node {
	order := make([]int, len(m.lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return m.lines[a] - m.lines[b] })
	content := make([]*yaml.Node, 0, len(m.Content))
	for _, i := range order {
		content = append(content, m.Content[2*i], m.Content[2*i+1])
	}
	m.Content = content
	return m.Node
}

// named returns the field of that name, or of its former one.
func (s spot) named(name string) spot {
	if at := s.field(name); at.value != nil || formerNames[name] == "" {
		return at
	}
	return s.field(formerNames[name])
}

// addList adds a list of texts unless it is empty.
func (m *mapping) addList(at spot, name string, values []string) {
	if len(values) == 0 {
		return
	}
	from := at.named(name)
	list := newList(from)
	for i, v := range values {
		list.Content = append(list.Content, text(v, from.item(i)))
	}
	m.add(at, name, list)
}

// comments copies the comments of a node, if there is one.
func comments(to, from *yaml.Node) {
	if from != nil {
		to.HeadComment, to.LineComment, to.FootComment = from.HeadComment, from.LineComment, from.FootComment
	}
}

// text returns a string, with the comments of a place, and written as it is
// there if it is the same.
func text(s string, at spot) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	comments(n, at.value)
	const quotes = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	from := deref(at.value)
	switch {
	case from != nil && from.Value == s && from.Style&quotes != 0:
		n.Style = from.Style & quotes
	case from != nil && from.Value == s && from.Style == 0:
		// What YAML 1.1 took for text as it stands it takes for text again.
	case !isPlain(s):
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// duration returns a duration, written as it is at a place if it is the same,
// else without the zeros at its end.
func duration(d time.Duration, at spot) *yaml.Node {
	s := d.String()
	for _, zeros := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zeros) {
			s = s[:len(s)-2]
		}
	}
	if from := deref(at.value); from != nil {
		if same, err := time.ParseDuration(from.Value); err == nil && same == d {
			s = from.Value
		}
	}
	return text(s, at)
}

// plainText begins with a letter, or is a duration.
var plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9./_-]*$|^[0-9]+(\.[0-9]+)?(h|m|s)[0-9.hms]*$`)

// isPlain reports whether no version of YAML could take a text without quotes
// for anything else.
func isPlain(s string) bool {
	words := []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
	return plainText.MatchString(s) && !slices.Contains(words, strings.ToLower(s))
}

// plain returns texts that are to be written.
func plain(list []plugin.Secret) []string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return texts
}
