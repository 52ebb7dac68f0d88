// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/regcred/regcred/plugin"
)

// predecessorProvider is a provider in a file of the predecessor.
type predecessorProvider struct {
	typeMeta
	Name          string    `json:"name"`
	ImageMatchers []string  `json:"imageMatchers"`
	ExtraArgs     extraArgs `json:"extraArgs"`
}

// typeAccepted reports whether p's own type, which may be left out, is one of the document's.
func (p *predecessorProvider) typeAccepted() bool {
	return slices.Contains(predecessorProviderKinds(), p.Kind) && slices.Contains(predecessorProviderVersions(), p.APIVersion)
}

func predecessorProviderKinds() []string {
	return []string{"", kindPredecessorProvider, kindPredecessorExample}
}

func predecessorProviderVersions() []string { return []string{"", versionPredecessor} }

// provider returns p as a [Provider]. The document caches an answer until its
// expirationTimestamp, and without one not at all: there is no default.
func (p *predecessorProvider) provider() Provider {
	out := Provider{
		Name: p.Name, MatchImages: p.ImageMatchers, APIVersion: plugin.OutOfTree,
		DefaultCacheDuration: new(time.Duration(0)),
	}
	for _, v := range p.ExtraArgs.list {
		out.Env = append(out.Env, EnvVar{upperName(v.Name), v.Value})
	}
	return out
}

// upperName puts letters of ASCII into upper case. Others, of which some
// become letters of ASCII, are refused by [variableProblem].
func upperName(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}, name)
}

// extraArgs is a list of name and value, as in the document's types, or a
// mapping, as in its example. A mapping has no order; it is sorted.
type extraArgs struct {
	list []EnvVar
	keys []string // the names as written, of a mapping; nil for a list
}

// UnmarshalJSON decodes either form, as strictly as what is around it.
func (a *extraArgs) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return unmarshalStrict(data, &a.list)
	}
	var mapping map[string]plugin.Secret
	if err := unmarshalStrict(data, &mapping); err != nil {
		return err
	}
	a.keys = slices.Sorted(maps.Keys(mapping))
	for _, key := range a.keys {
		a.list = append(a.list, EnvVar{key, mapping[key]})
	}
	return nil
}

// decodePredecessor decodes a file of the predecessor.
func decodePredecessor(doc []byte) (d decoded, err error) {
	var wire wireConfig[predecessorProvider]
	if err := unmarshalStrict(doc, &wire); err != nil {
		return d, err
	}
	for i := range wire.Providers {
		p := &wire.Providers[i]
		if !p.typeAccepted() {
			return d, errProviderType
		}
		d.providers = append(d.providers, p.provider())
		d.argKeys = append(d.argKeys, p.ExtraArgs.keys)
	}
	return d, nil
}

// predecessorShape returns the shape of a file of the predecessor.
func predecessorShape() *shape {
	str := &shape{scalar: "string"}
	secret := &shape{scalar: "string", secret: true}
	item := &shape{secret: true, fields: map[string]*shape{"name": secret, "value": secret},
		others: "an item of the list has name and value; without the dash before it, this is a mapping of names to values"}
	return &shape{fields: map[string]*shape{
		"apiVersion": str,
		"kind":       str,
		"providers": {elem: &shape{fields: map[string]*shape{
			"kind":          {scalar: "string", oneOf: predecessorProviderKinds()},
			"apiVersion":    {scalar: "string", oneOf: predecessorProviderVersions()},
			"name":          str,
			"imageMatchers": {elem: str},
			"extraArgs":     {elem: item, values: secret, secret: true},
		}}},
	}}
}

// predecessorPlace returns where something of a provider stands that rest
// leads to in the names of today.
func (f *File) predecessorPlace(index int, rest FieldPath) Position {
	p := FieldPath{"providers", index}
	switch {
	case len(rest) == 0:
		return f.source.place(p)
	case rest[0] == "matchImages":
		return f.source.place(append(p.with("imageMatchers"), rest[1:]...))
	case rest[0] != "env":
		return f.source.place(append(p, rest...))
	}
	p = p.with("extraArgs")
	keys := f.argKeys[index]
	if len(rest) == 1 || keys == nil {
		return f.source.place(append(p, rest[1:]...))
	}
	k, ok := rest[1].(int)
	if !ok || k >= len(keys) {
		return f.source.place(p)
	}
	name := keys[k]
	at := f.source.keyPlace(p.with(name))
	if rest[len(rest)-1] == "value" {
		at = f.source.place(p.with(name))
	}
	if !isVariableName(name) {
		at.Path = p.String()
	}
	return at
}

// isVariableName reports whether a text looks like the name of a variable and
// not like a secret that stands where a name belongs, so that it may be shown.
func isVariableName(s string) bool {
	return 0 < len(s) && len(s) <= 32 && !strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
	})
}
