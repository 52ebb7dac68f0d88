// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/plugin"
)

// fullProvider returns a provider with every field set.
func fullProvider() *Provider {
	return &Provider{
		Name: "a", MatchImages: []string{"a.example", "b.example"}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1,
		Args: []plugin.Secret{plugin.NewSecret("x"), plugin.NewSecret("y")}, Env: []EnvVar{{"A", plugin.NewSecret("x")}, {"B", plugin.NewSecret("y")}},
		TokenAttributes: &TokenAttributes{
			ServiceAccountTokenAudience: "aud", CacheType: CachePerToken, RequireServiceAccount: new(true),
			RequiredServiceAccountAnnotationKeys: []string{"a", "b"}, OptionalServiceAccountAnnotationKeys: []string{"c", "d"},
		},
	}
}

// possibleChange is one change to a field of a value.
type possibleChange struct {
	path  string
	apply func()
}

// possibleChanges returns the possible changes to v and to the values that v contains. The test
// fails if it does not support a kind of value, or if a value is empty.
func possibleChanges(t *testing.T, at string, v reflect.Value) (all []possibleChange) {
	if v.IsZero() {
		t.Errorf("%s is empty: fill it in fullProvider", at)
	}
	set := func(what string, to reflect.Value) { all = append(all, possibleChange{at + what, func() { v.Set(to) }}) }
	switch other, isSecret := reflect.ValueOf(plugin.NewSecret("other")), v.Type() == reflect.TypeFor[plugin.Secret](); {
	case isSecret:
		set("", other)
	case v.Kind() == reflect.String:
		set("", reflect.ValueOf("other").Convert(v.Type()))
	case v.Kind() == reflect.Bool:
		set("", reflect.ValueOf(!v.Bool()))
	case v.Kind() == reflect.Int64:
		set("", reflect.ValueOf(v.Int()+1).Convert(v.Type()))
	case v.Kind() == reflect.Pointer:
		set(" to nil", reflect.Zero(v.Type()))
		all = append(all, possibleChanges(t, at, v.Elem())...)
	case v.Kind() == reflect.Slice:
		set(" to nil", reflect.Zero(v.Type()))
		set(" without the last", v.Slice(0, v.Len()-1))
		set(" with one more", reflect.Append(v.Slice3(0, v.Len(), v.Len()), v.Index(0)))
		for i := range v.Len() {
			all = append(all, possibleChanges(t, at+"[]", v.Index(i))...)
		}
	case v.Kind() == reflect.Struct:
		for f, field := range v.Fields() {
			all = append(all, possibleChanges(t, strings.TrimPrefix(at+"."+f.Name, "."), field)...)
		}
	default:
		t.Errorf("%s: the test cannot change a %s", at, v.Type())
	}
	return all
}

func TestProviderEqual(t *testing.T) {
	if !fullProvider().Equal(fullProvider()) {
		t.Fatal("two that say the same are not equal")
	}
	n := len(possibleChanges(t, "", reflect.ValueOf(fullProvider()).Elem()))
	if n < 25 {
		t.Errorf("only %d changes", n)
	}
	for i := range n {
		p := fullProvider()
		c := possibleChanges(t, "", reflect.ValueOf(p).Elem())[i]
		if c.apply(); p.Equal(fullProvider()) || fullProvider().Equal(p) {
			t.Errorf("still equal with another %s", c.path)
		}
	}
	p, q := fullProvider(), fullProvider()
	p.Args, p.Env, p.TokenAttributes.RequiredServiceAccountAnnotationKeys = nil, nil, nil
	q.Args, q.Env, q.TokenAttributes.RequiredServiceAccountAnnotationKeys = []plugin.Secret{}, []EnvVar{}, []string{}
	if !p.Equal(q) || !(&Provider{}).Equal(&Provider{}) {
		t.Error("an empty list does not say what a missing one does")
	}
}
