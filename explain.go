// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/registry"
)

// Explanation lists which providers match an image, and why the others do not.
type Explanation struct {
	Image      string                `json:"image"`      // as in the request
	Repository string                `json:"repository"` // the normalized name that plugins receive
	Providers  []ProviderExplanation `json:"providers"`
	// Nearest is the index of the provider with the most similar pattern. It is -1 if a
	// provider matches, or if no pattern is similar to the image.
	Nearest int    `json:"nearest"`
	Error   string `json:"error,omitempty"` // why the image is not a valid reference
}

// ProviderExplanation is the part of an [Explanation] for one provider.
type ProviderExplanation struct {
	Name    string `json:"name"`
	Index   int    `json:"index"` // in Config.Providers
	Matched bool   `json:"matched"`
	// Pattern is the first pattern that matched or, if none matched, the most similar
	// one.
	Pattern  string               `json:"pattern,omitempty"`
	Reason   string               `json:"reason,omitempty"`  // why Pattern does not match
	Instead  string               `json:"instead,omitempty"` // a similar pattern that does match, if there is an obvious one
	Patterns []PatternExplanation `json:"patterns"`
}

// PatternExplanation is the part of a [ProviderExplanation] for one pattern.
type PatternExplanation struct {
	Pattern string `json:"pattern"`
	Matched bool   `json:"matched"`
	Reason  string `json:"reason,omitempty"`  // e.g. `label 2: "us" does not match "eu*"`
	Instead string `json:"instead,omitempty"` // a similar pattern that does match, if there is an obvious one
}

// Explain reports for each provider and pattern whether it matches req.Image or
// req.Registry and, if it does not, why. It runs no plugins; [Keyring.Lookup] does, and
// returns each provider's outcome.
func Explain(c *config.Config, req Request) Explanation {
	x := Explanation{Image: cmp.Or(req.Image, req.Registry), Providers: []ProviderExplanation{}, Nearest: -1}
	key, err := newLookupKey(req)
	if err != nil {
		x.Error = err.Error()
		return x
	}
	x.Repository = key.name
	nearest := -1 // similarity of the most similar pattern so far; higher is more similar
	for i := range c.Providers {
		p, near := explainProvider(&c.Providers[i], key)
		p.Index = i
		x.Providers = append(x.Providers, p)
		if near > nearest {
			x.Nearest, nearest = i, near
		}
	}
	if slices.ContainsFunc(x.Providers, func(p ProviderExplanation) bool { return p.Matched }) {
		x.Nearest = -1
	}
	return x
}

func explainProvider(p *config.Provider, key lookupKey) (x ProviderExplanation, nearest int) {
	x = ProviderExplanation{Name: p.Name, Patterns: []PatternExplanation{}}
	nearest = math.MinInt
	for _, s := range p.MatchImages {
		pe, near := explainPattern(s, key)
		x.Patterns = append(x.Patterns, pe)
		if near > nearest {
			nearest, x.Matched, x.Pattern, x.Reason, x.Instead = near, pe.Matched, s, pe.Reason, pe.Instead
		}
	}
	return x, nearest
}

func explainPattern(s string, key lookupKey) (x PatternExplanation, near int) {
	p, err := location.ParsePattern(s)
	if err != nil {
		return PatternExplanation{Pattern: s, Reason: "not a valid pattern: " + err.Error()}, math.MinInt + 1
	}
	m := diagnose.ComparePattern(p, key.location)
	if at := p.Location; m.Suggestion != "" && strings.HasPrefix(key.location.Path, at.Path) {
		if host := registry.SuggestHost(at.Host, key.location.Host); host != "" {
			at.Host, at.Port = host, key.location.Port
			m.Suggestion = at.String()
		}
	}
	return PatternExplanation{Pattern: s, Matched: m.Reason == "", Reason: m.Reason, Instead: m.Suggestion}, m.Similarity
}
