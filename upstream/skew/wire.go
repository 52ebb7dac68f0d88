// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/generate"
	"github.com/regcred/regcred/upstream/ours"
	"github.com/regcred/regcred/upstream/vector"
)

// loose reports whether only older kubelets parse s.
func loose(s string) bool {
	_, err := match.Parse(s)
	return err != nil && location.IsValidBefore136(s)
}

func matches(*sides) (compare, error) {
	return func(s *sides, r *rand.Rand) (verdict, error) {
		c := generate.Match(r)
		want, err := about[vector.Match](s.oracle, "match", c, false)
		if err != nil {
			return agreed, err
		}
		p, err := match.Parse(string(c.Pattern))
		if got := p.Match(string(c.Image)); got == want.Match && (err != nil) == want.Invalid {
			return agreed, nil
		}
		name := ""
		if byColons(vector.Match{Pair: c, Invalid: err != nil}, want) {
			name = of(looseColons, s.oracle.minor)
		}
		return differ(name, "pattern %q, image %q: error %v; the kubelet's match %t, invalid %t", c.Pattern, c.Image, err, want.Match, want.Invalid), nil
	}, nil
}

func references(*sides) (compare, error) {
	list := corpus.References()
	return func(s *sides, r *rand.Rand) (verdict, error) {
		ref := corpus.Text(generate.Reference(r, list))
		want, err := about[vector.Reference](s.oracle, "references", vector.Reference{Reference: ref}, false)
		if err != nil {
			return agreed, err
		}
		got, err := match.Repository(string(ref))
		if (err != nil) == want.Error && (err != nil || got == want.Repository) {
			return agreed, nil
		}
		return differ("", "reference %q: %q, error %v; the kubelet's %q, error %t", ref, got, err, want.Repository, want.Error), nil
	}, nil
}

func requests(*sides) (compare, error) {
	return func(s *sides, r *rand.Rand) (verdict, error) {
		c := readable(generate.Request(r))
		want, err := about[vector.Request](s.oracle, "request", c, false)
		if err != nil {
			return agreed, err
		}
		got, err := ours.EncodeRequest(c)
		if err != nil || string(got) == string(want.Bytes) {
			return agreed, err
		}
		return differ("", "%s, image %q: %q; the kubelet's %q", c.APIVersion, c.Image, got, want.Bytes), nil
	}, nil
}

// readable replaces invalid UTF-8 as encoding/json does. Tokens and annotations come from
// JSON, so they never contain it.
func readable(r corpus.Request) corpus.Request {
	r.Token = strings.ToValidUTF8(r.Token, "\ufffd")
	notes := map[string]string{}
	for k, v := range r.Annotations {
		notes[strings.ToValidUTF8(k, "\ufffd")] = strings.ToValidUTF8(v, "\ufffd")
	}
	if r.Annotations != nil {
		r.Annotations = notes
	}
	return r
}

func responses(*sides) (compare, error) {
	all := generate.Outputs()
	good := slices.DeleteFunc(slices.Clone(all), func(output string) bool {
		_, err := plugin.DecodeResponse([]byte(output), plugin.V1)
		return err != nil
	})
	return func(s *sides, r *rand.Rand) (verdict, error) {
		c := generate.Response(r, good, all)
		want, err := about[vector.Response](s.oracle, "response", c, false)
		if err != nil {
			return agreed, err
		}
		got, err := plugin.DecodeResponse([]byte(c.Output), c.APIVersion)
		if (err != nil) != (want.Decoded == nil) || !reflect.DeepEqual(ours.Response(got), want.Decoded) {
			output := strings.ReplaceAll(string(c.Output), "canary-", "…")
			return differ("", "asked in %s, output %q: error %v; accepted by the kubelet: %t", c.APIVersion, output, err, want.Decoded != nil), nil
		}
		return agreed, nil
	}, nil
}
