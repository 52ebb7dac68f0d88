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
	return reach{index, text, at, strings.ContainsAny(at.Host, ":["),
		strings.Split(at.Host, "."), strings.Split(strings.ReplaceAll(at.Host, "*", "\x00"), ".")}
}

func (r reach) shown() string { return excerpt.Value(excerpt.Pattern(r.text)) }

// reachOf returns those patterns of a provider that can match.
func reachOf(p *config.Provider) []reach {
	var rs []reach
	for k, s := range p.MatchImages {
		if at, err := match.ParseLocation(s); err == nil && matchable(at) {
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
	pa, pb reach
	image  string
}

func overlapsOf(c *config.Config) (found []overlap) {
	reaches := make([][]reach, len(c.Providers))
	for i := range c.Providers {
		reaches[i] = reachOf(&c.Providers[i])
	}
	budget := maxComparisons
	for b := range reaches {
		first := len(found)
		for a := 0; a < b && len(found)-first < maxOverlaps; a++ {
			if pa, pb, image := firstOverlap(reaches[a], reaches[b], &budget); image != "" {
				found = append(found, overlap{a, b, pa, pb, image})
			}
		}
	}
	return found
}

// remark is about the later provider's pattern.
func (o *overlap) remark(format string, args ...any) remark {
	return remark{at: spot{provider: o.b, rest: config.FieldPath{"matchImages", o.pb.index}}, message: fmt.Sprintf(format, args...)}
}

func firstOverlap(as, bs []reach, budget *int) (pa, pb reach, image string) {
	for _, b := range bs {
		for _, a := range as {
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
	reach := reachOf(p)
	budget := maxComparisons
	for k, b := range reach {
		for i, a := range reach {
			if budget--; budget < 0 {
				return rs
			}
			same := a.text == b.text
			if !same && covers(a, b) && (i < k || !covers(b, a)) {
				rs = and(rs, within(config.FieldPath{"matchImages", b.index}, "remove it", "%q adds nothing, because %q matches all its images",
					b.shown(), a.shown())...)
				break
			}
		}
	}
	return rs
}
