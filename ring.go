// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"slices"
	"strings"
	"sync"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/match"
)

// ring is a configuration at work: its providers, and who of them is asked for
// what. It is never changed, but replaced as a whole.
type ring struct {
	patterns [][]string // matchImages by provider
	index    *match.Index
	runners  []*runner

	hosts func() *match.Index // of the hosts alone of patterns that have a path
}

// newRing makes a ring of c. Providers that former has too, with the same
// entry and the same executable, are taken over with all that they know.
func newRing(h *host, c *config.Config, former *ring) *ring {
	g := &ring{}
	for i := range c.Providers {
		p := &c.Providers[i]
		at := place{c, i}
		r := former.same(p)
		if r == nil {
			r = newRunner(h, at)
		}
		r.written.Store(&at)
		g.patterns = append(g.patterns, r.entry.MatchImages)
		g.runners = append(g.runners, r)
	}
	g.index = match.NewIndex(g.patterns)
	g.hosts = sync.OnceValue(func() *match.Index { return match.NewIndex(hostsOf(g.patterns)) })
	return g
}

// same returns g's runner for an entry that has not changed, nor has its
// executable; nil if there is none.
func (g *ring) same(p *config.Provider) *runner {
	if g == nil {
		return nil
	}
	i := slices.IndexFunc(g.runners, func(r *runner) bool { return r.name == p.Name })
	if i < 0 || !g.runners[i].unchanged(p) {
		return nil
	}
	return g.runners[i]
}

// retire tells the runners of g that are not in next.
func (g *ring) retire(next *ring) {
	for _, r := range g.runners {
		if !slices.Contains(next.runners, r) {
			r.retire()
		}
	}
}

// hostsOf replaces patterns that have a path by their hosts, and the others by
// text that is no pattern.
func hostsOf(patterns [][]string) [][]string {
	hosts := make([][]string, len(patterns))
	for i, list := range patterns {
		for _, s := range list {
			host := "%"
			if hasPath(s) {
				host, _, _ = strings.Cut(s, "/")
			}
			hosts[i] = append(hosts[i], host)
		}
	}
	return hosts
}

func hasPath(pattern string) bool {
	at, err := match.ParseLocation(pattern)
	return err == nil && at.Path != ""
}

// matching returns the providers that match a question, and of a bare registry
// also those that would match some image of it: these have no hit in index.
func (g *ring) matching(q question, hits []match.Hit) []match.Hit {
	hits = g.index.Match(q.at, hits)
	if !q.bare() {
		return hits
	}
	for _, h := range g.hosts().Match(q.at, nil) {
		if !slices.ContainsFunc(hits, func(m match.Hit) bool { return m.List == h.List }) {
			hits = append(hits, h)
		}
	}
	slices.SortFunc(hits, func(a, b match.Hit) int { return a.List - b.List })
	return hits
}
