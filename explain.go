// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"cmp"
	"math"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/match"
)

// Explanation says which providers match an image, and why the others do not.
type Explanation struct {
	Image      string                `json:"image"`      // as given
	Repository string                `json:"repository"` // as providers see it
	Providers  []ProviderExplanation `json:"providers"`
	Error      string                `json:"error,omitempty"` // the image is not a valid reference
}

// ProviderExplanation is the part of an [Explanation] for one provider.
type ProviderExplanation struct {
	Name    string `json:"name"`
	Index   int    `json:"index"` // in Config.Providers
	Matched bool   `json:"matched"`
	// Pattern is the first one that matched or, if none did, the one that came nearest.
	Pattern  string               `json:"pattern,omitempty"`
	Reason   string               `json:"reason,omitempty"` // why Pattern does not match
	Patterns []PatternExplanation `json:"patterns"`
}

// PatternExplanation is the part of a [ProviderExplanation] for one pattern.
type PatternExplanation struct {
	Pattern string `json:"pattern"`
	Matched bool   `json:"matched"`
	Reason  string `json:"reason,omitempty"` // e.g. `label 2: "us" does not match "eu*"`
}

// Explain says for every provider and pattern whether it matches the image or
// registry of req, and why not. It runs nothing, and looks at nothing else of
// req. What a provider then does is in the Attempts of [Keyring.Lookup].
func Explain(c *config.Config, req Request) Explanation {
	x := Explanation{Image: cmp.Or(req.Image, req.Registry), Providers: []ProviderExplanation{}}
	q, err := newQuestion(req)
	if err != nil {
		x.Error = err.Error()
		return x
	}
	x.Repository = q.name
	for i := range c.Providers {
		p := explainProvider(&c.Providers[i], q)
		p.Index = i
		x.Providers = append(x.Providers, p)
	}
	return x
}

func explainProvider(p *config.Provider, q question) ProviderExplanation {
	x := ProviderExplanation{Name: p.Name, Patterns: []PatternExplanation{}}
	nearest := math.MinInt
	for _, s := range p.MatchImages {
		pe, near := explainPattern(s, q)
		x.Patterns = append(x.Patterns, pe)
		switch {
		case x.Matched:
		case pe.Matched:
			x.Matched, x.Pattern, x.Reason = true, s, ""
		case near > nearest:
			nearest, x.Pattern, x.Reason = near, s, pe.Reason
		}
	}
	return x
}

func explainPattern(s string, q question) (x PatternExplanation, near int) {
	p, err := match.Parse(s)
	if err != nil {
		return PatternExplanation{Pattern: s, Reason: "not a valid pattern: " + err.Error()}, 0
	}
	reason, near := p.Mismatch(q.at)
	return PatternExplanation{Pattern: s, Matched: reason == "", Reason: reason}, near
}
