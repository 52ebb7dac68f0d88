// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"strings"
	"unicode"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/lint/internal/imagename"
	"github.com/regcred/regcred/plugin"
)

// pattern is an entry of matchImages, as its author meant it and as the kubelet
// parses it.
type pattern struct {
	raw       string // as in the file; messages contain shown instead
	siblings  *patternList
	tokens    bool // the provider uses service account tokens
	outOfTree bool // only regcred reads the file

	valid    bool              // kubelet 1.37 accepts it
	scheme   string            // with "://"; the kubelet parses it as the host
	body     string            // without scheme and surrounding space
	parsed   location.Location // body, as the kubelet parses it
	repaired location.Location // parsed, after imagename.Repair
	shown    string            // raw without user information, query and fragment
	matches  bool              // some image can match
	hasSpace bool              // in the compared part
	catchAll bool              // see patternList
}

func parsePattern(provider *config.Provider, k int, siblings *patternList) *pattern {
	p := &pattern{raw: provider.MatchImages[k], siblings: siblings, tokens: provider.TokenAttributes != nil, outOfTree: provider.APIVersion == plugin.OutOfTree}
	p.shown = excerpt.Value(excerpt.Pattern(p.raw))
	whole, err := location.Parse(p.raw)
	if p.valid = err == nil; !p.valid {
		return p
	}
	p.body = strings.TrimSpace(p.raw)
	if scheme, rest, ok := strings.Cut(p.body, "://"); ok && !strings.ContainsAny(scheme, "/?#@") {
		p.scheme, p.body = scheme+"://", rest
	}
	if p.parsed, err = location.Parse(p.body); err != nil {
		p.parsed = whole
	}
	p.repaired = imagename.Repair(p.parsed)
	p.matches = imagename.Matchable(whole)
	p.catchAll = siblings.inCatchAll(p.raw)
	p.hasSpace = strings.ContainsFunc(whole.Host+whole.Path, unicode.IsSpace)
	return p
}

// fix returns the repaired pattern, or "" if it would not match either.
func (p *pattern) fix() string {
	if s := p.repaired.String(); imagename.Matchable(p.repaired) && excerpt.Value(s) == s && s != p.raw {
		return s
	}
	return ""
}

// hasSibling reports whether the provider also has the pattern s.
func (p *pattern) hasSibling(s string) bool { return p.siblings.index[s] > 0 }
