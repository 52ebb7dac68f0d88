// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

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
	Index   int    `json:"index"`
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

// Explain says for every provider and pattern whether it matches image, and
// why not. It runs nothing.
func (c *Config) Explain(image string) Explanation { return Explanation{} }
