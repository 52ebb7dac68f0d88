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
	"github.com/regcred/regcred/upstream/adapter"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/generate"
	"github.com/regcred/regcred/upstream/vector"
)

// isLoosePattern reports whether s is a pattern that only older kubelets can parse.
func isLoosePattern(s string) bool {
	_, err := match.Parse(s)
	return err != nil && location.IsValidBeforeKubelet136(s)
}

func compareMatches(*comparison) (compareFunc, error) {
	return func(s *comparison, r *rand.Rand) (verdict, error) {
		c := generate.RandomMatchCase(r)
		want, err := queryVector[vector.MatchVector](s.oracle, "match", c, false)
		if err != nil {
			return verdictAgreed, err
		}
		p, err := match.Parse(string(c.Pattern))
		if got := p.Match(string(c.Image)); got == want.Match && (err != nil) == want.Invalid {
			return verdictAgreed, nil
		}
		name := ""
		if differsOnlyByColons(vector.MatchVector{MatchCase: c, Invalid: err != nil}, want) {
			name = differenceFor(diffLooseColons, s.oracle.minor)
		}
		return newDifference(name, "pattern %q, image %q: error %v; the kubelet's match %t, invalid %t", c.Pattern, c.Image, err, want.Match, want.Invalid), nil
	}, nil
}

func compareReferences(*comparison) (compareFunc, error) {
	list := corpus.ImageReferences()
	return func(s *comparison, r *rand.Rand) (verdict, error) {
		ref := corpus.RawString(generate.RandomReference(r, list))
		want, err := queryVector[vector.ReferenceVector](s.oracle, "references", vector.ReferenceVector{Reference: ref}, false)
		if err != nil {
			return verdictAgreed, err
		}
		got, err := match.Repository(string(ref))
		if (err != nil) == want.Error && (err != nil || got == want.Repository) {
			return verdictAgreed, nil
		}
		return newDifference("", "reference %q: %q, error %v; the kubelet's %q, error %t", ref, got, err, want.Repository, want.Error), nil
	}, nil
}

func compareRequests(*comparison) (compareFunc, error) {
	return func(s *comparison, r *rand.Rand) (verdict, error) {
		c := replaceInvalidUTF8(generate.RandomRequest(r))
		want, err := queryVector[vector.RequestVector](s.oracle, "request", c, false)
		if err != nil {
			return verdictAgreed, err
		}
		got, err := adapter.EncodeRequest(c)
		if err != nil || string(got) == string(want.Bytes) {
			return verdictAgreed, err
		}
		return newDifference("", "%s, image %q: %q; the kubelet's %q", c.APIVersion, c.Image, got, want.Bytes), nil
	}, nil
}

// replaceInvalidUTF8 replaces invalid UTF-8 as encoding/json does. Tokens and annotations come from
// JSON, so they never contain it.
func replaceInvalidUTF8(r corpus.Request) corpus.Request {
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

func compareResponses(*comparison) (compareFunc, error) {
	all := generate.SmallResponses()
	good := slices.DeleteFunc(slices.Clone(all), func(output string) bool {
		_, err := plugin.DecodeResponse([]byte(output), plugin.V1)
		return err != nil
	})
	return func(s *comparison, r *rand.Rand) (verdict, error) {
		c := generate.MutateResponse(r, good, all)
		want, err := queryVector[vector.ResponseVector](s.oracle, "response", c, false)
		if err != nil {
			return verdictAgreed, err
		}
		got, err := plugin.DecodeResponse([]byte(c.Output), c.APIVersion)
		if (err != nil) != (want.Decoded == nil) || !reflect.DeepEqual(adapter.ConvertResponse(got), want.Decoded) {
			output := strings.ReplaceAll(string(c.Output), "canary-", "…")
			return newDifference("", "asked in %s, output %q: error %v; accepted by the kubelet: %t", c.APIVersion, output, err, want.Decoded != nil), nil
		}
		return verdictAgreed, nil
	}, nil
}
