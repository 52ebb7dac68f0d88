// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/match"
)

// maxComparisons bounds each rule that compares patterns with each other. It
// is enough for 2,000 patterns; of more, the first are compared.
const maxComparisons = 5_000_000

// globCost is how many comparisons one of two globs takes.
const globCost = 32

// reach is a pattern that can match, and where it stands in matchImages.
type reach struct {
	index   int
	text    string
	at      match.Location
	address bool     // the host is an IPv6 address
	labels  []string // of the host
	fixed   []string // labels with a NUL, which a star alone can match, for each star
}

func newReach(index int, text string, at match.Location) reach {
	labels := strings.Split(at.Host, ".")
	fixed := labels
	if strings.Contains(at.Host, "*") {
		fixed = strings.Split(strings.ReplaceAll(at.Host, "*", "\x00"), ".")
	}
	return reach{index, text, at, strings.ContainsAny(at.Host, ":["), labels, fixed}
}

func (r reach) shown() string { return excerpt.Value(excerpt.Pattern(r.text)) }

// maxReaches bounds how many patterns of one provider, and of all together, are
// compared; maxReachLength how long they are. Longer hosts are nobody's.
const (
	maxReaches     = 16 << 10
	maxReachLength = 1 << 10
)

// reachOf returns those patterns of a provider that can match, at most as many
// as there is room for. A ladder is left out: it overlaps with everybody, and
// one finding says so.
func reachOf(p *config.Provider, room int) []reach {
	var rs []reach
	others := listOf(p.MatchImages)
	for k, s := range p.MatchImages {
		if len(rs) == room {
			break
		}
		if len(s) > maxReachLength {
			continue
		}
		if at, err := match.ParseLocation(s); err == nil && !others.rung(s) && matchable(at) {
			rs = append(rs, newReach(k, s, at))
		}
	}
	return rs
}

// maxOverlaps bounds how many other providers one is reported to overlap with.
const maxOverlaps = 10

// overlap is a pair of providers that share an image, with patterns that match
// it; they differ if any such patterns do.
type overlap struct {
	a, b   int // providers; b is the later one
	pa, pb *reach
	image  string
}

func overlapsOf(c *config.Config) (found []overlap) {
	type patterns struct {
		provider int
		list     []reach
	}
	var all []patterns
	for i, room := 0, maxReaches; i < len(c.Providers) && room > 0; i++ {
		if rs := reachOf(&c.Providers[i], room); len(rs) > 0 {
			all = append(all, patterns{i, rs})
			room -= len(rs)
		}
	}
	budget := maxComparisons
	for k, b := range all {
		first := len(found)
		for _, a := range all[:k] {
			if budget < 0 || len(found)-first == maxOverlaps {
				break
			}
			if pa, pb, image := firstOverlap(a.list, b.list, &budget); image != "" {
				found = append(found, overlap{a.provider, b.provider, pa, pb, image})
			}
		}
	}
	return found
}

// remark is about the later provider's pattern.
func (o *overlap) remark(format string, args ...any) remark {
	return remark{at: spot{provider: o.b, rest: config.FieldPath{"matchImages", o.pb.index}}, message: fmt.Sprintf(format, args...)}
}

func firstOverlap(as, bs []reach, budget *int) (pa, pb *reach, image string) {
	for i := range bs {
		for k := range as {
			a, b := &as[k], &bs[i]
			if *budget--; *budget < 0 {
				return pa, pb, image
			}
			if !hostsMeet(a.labels, b.labels, budget) {
				continue // which settles nearly all pairs, without memory
			}
			example := exampleImage(a.at, b.at)
			if example == "" || image != "" && a.text == b.text {
				continue
			}
			if pa, pb, image = a, b, example; a.text != b.text {
				return pa, pb, image
			}
		}
	}
	return pa, pb, image
}

func ruleShadowedPattern(p *config.Provider) (rs []remark) {
	reach := reachOf(p, maxReaches)
	budget := maxComparisons
	for k, b := range reach {
		for i, a := range reach {
			if budget--; budget < 0 {
				return rs
			}
			same := a.text == b.text
			if !same && covers(a, b) && (i < k || !covers(b, a)) {
				rs = and(rs, within(config.FieldPath{"matchImages", b.index}, "remove the pattern", "%q is redundant, because %q matches all its images",
					b.shown(), a.shown())...)
				break
			}
		}
	}
	return rs
}
