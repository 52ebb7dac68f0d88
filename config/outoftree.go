// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/plugin"
)

// outOfTreeProvider is a provider in a RegistryCredentialConfig. kind and apiVersion are
// optional.
type outOfTreeProvider struct {
	Kind          outOfTreeKind    `json:"kind"`
	APIVersion    outOfTreeVersion `json:"apiVersion"`
	Name          string           `json:"name"`
	ImageMatchers []string         `json:"imageMatchers"`
	ExtraArgs     extraArgs        `json:"extraArgs"`
}

type (
	outOfTreeKind    string
	outOfTreeVersion string
)

func (outOfTreeKind) shape() *shape {
	return optionalConst(kindOutOfTreeProvider, kindOutOfTreeExample)
}

func (outOfTreeVersion) shape() *shape { return optionalConst(versionOutOfTree) }

// optionalConst returns the shape of an optional field that accepts only the given
// values.
func optionalConst(words ...string) *shape {
	return &shape{noun: nounString, checkText: func(s string) string {
		if s == "" || slices.Contains(words, s) {
			return ""
		}
		return "must be " + strings.Join(words, " or ") + " or be omitted"
	}}
}

// toProvider converts p to a Provider. DefaultCacheDuration is 0, because the proposal has no
// default duration: a response without an expirationTimestamp is not cached.
func (p outOfTreeProvider) toProvider() (out Provider, argKeys []string, err error) {
	if msg := cmp.Or(p.Kind.shape().checkText(string(p.Kind)), p.APIVersion.shape().checkText(string(p.APIVersion))); msg != "" {
		return out, nil, errors.New(msg)
	}
	out = Provider{
		Name: p.Name, MatchImages: p.ImageMatchers, APIVersion: plugin.OutOfTree,
		DefaultCacheDuration: new(time.Duration(0)),
	}
	for _, v := range p.ExtraArgs.list {
		out.Env = append(out.Env, EnvVar{toUpperASCII(v.Name), v.Value})
	}
	return out, p.ExtraArgs.keys, nil
}

// toUpperASCII converts ASCII letters to upper case. It must not convert other letters, because
// the upper case of some is an ASCII letter. [variableProblem] rejects such names.
func toUpperASCII(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}, name)
}

// extraArgs is a list of names and values, as the proposal defines it, or a mapping, as in the
// proposal's example. The arguments of a mapping are sorted by name.
type extraArgs struct {
	list []EnvVar
	keys []string // the original names in a mapping; nil for a list
}

// UnmarshalJSON decodes a list or a mapping. It rejects unknown and duplicate fields.
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

func (extraArgs) shape() *shape {
	item := newShape(reflect.TypeFor[EnvVar]())
	item.unknownFieldMessage = "each list item must have a name and a value; to write a mapping of names to values, omit the dashes"
	return &shape{noun: "a list of items with name and value, or a mapping of names to values", secret: true, elem: item, values: newShape(reflect.TypeFor[plugin.Secret]())}
}
