// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"cmp"
	"math"
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/family"
	"github.com/regcred/regcred/match"
)

// Explanation says which providers match an image, and why the others do not.
type Explanation struct {
	Image      string                `json:"image"`      // as given
	Repository string                `json:"repository"` // as providers see it
	Providers  []ProviderExplanation `json:"providers"`
	// Nearest is the index in Providers of the one whose pattern came nearest. It
	// is -1 if some provider matches, and if none has a pattern that is like the
	// image: all are for domains of other owners.
	Nearest int    `json:"nearest"`
	Error   string `json:"error,omitempty"` // the image is not a valid reference
}

// ProviderExplanation is the part of an [Explanation] for one provider.
type ProviderExplanation struct {
	Name    string `json:"name"`
	Index   int    `json:"index"` // in Config.Providers
	Matched bool   `json:"matched"`
	// Pattern is the first one that matched or, if none did, the one that came nearest.
	Pattern  string               `json:"pattern,omitempty"`
	Reason   string               `json:"reason,omitempty"`  // why Pattern does not match
	Instead  string               `json:"instead,omitempty"` // a pattern like it that does, if one is evident
	Patterns []PatternExplanation `json:"patterns"`
}

// PatternExplanation is the part of a [ProviderExplanation] for one pattern.
type PatternExplanation struct {
	Pattern string `json:"pattern"`
	Matched bool   `json:"matched"`
	Reason  string `json:"reason,omitempty"`  // e.g. `label 2: "us" does not match "eu*"`
	Instead string `json:"instead,omitempty"` // see [match.Mismatch]
}

// Explain says for every provider and pattern whether it matches the image or
// registry of req, and why not. It runs nothing, and looks at nothing else of
// req. What a provider then does is in the Attempts of [Keyring.Lookup].
func Explain(c *config.Config, req Request) Explanation {
	x := Explanation{Image: cmp.Or(req.Image, req.Registry), Providers: []ProviderExplanation{}, Nearest: -1}
	q, err := newQuestion(req)
	if err != nil {
		x.Error = err.Error()
		return x
	}
	x.Repository = q.name
	nearest := -1 // whatever is like the image is nearer
	for i := range c.Providers {
		p, near := explainProvider(&c.Providers[i], q)
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

func explainProvider(p *config.Provider, q question) (x ProviderExplanation, nearest int) {
	x = ProviderExplanation{Name: p.Name, Patterns: []PatternExplanation{}}
	nearest = math.MinInt
	for _, s := range p.MatchImages {
		pe, near := explainPattern(s, q)
		x.Patterns = append(x.Patterns, pe)
		if near > nearest {
			nearest, x.Matched, x.Pattern, x.Reason, x.Instead = near, pe.Matched, s, pe.Reason, pe.Instead
		}
	}
	return x, nearest
}

func explainPattern(s string, q question) (x PatternExplanation, near int) {
	p, err := match.Parse(s)
	if err != nil {
		return PatternExplanation{Pattern: s, Reason: "not a valid pattern: " + err.Error()}, math.MinInt + 1
	}
	m := p.Mismatch(q.at)
	if form := family.Instead(p.Location(), q.at); m.Instead != "" && form != "" {
		m.Instead = form
	}
	return PatternExplanation{Pattern: s, Matched: m.Reason == "", Reason: m.Reason, Instead: m.Instead}, m.Near
}
