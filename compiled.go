// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"slices"
	"strings"
	"sync"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/index"
	"github.com/regcred/regcred/internal/location"
)

// compiledConfig is a configuration prepared for lookups. It is immutable; Reload
// replaces it.
type compiledConfig struct {
	patterns [][]string // matchImages of each provider
	index    *index.Index
	runners  []*runner

	hostIndex func() *index.Index // index of the hosts of patterns that have a path; used for registry lookups
}

// compileConfig prepares c for lookups. A provider whose configuration and executable are
// unchanged keeps its runner, including the cached responses.
func compileConfig(e *keyringEnv, c *config.Config, previous *compiledConfig) *compiledConfig {
	next := &compiledConfig{}
	for i := range c.Providers {
		p := &c.Providers[i]
		at := providerPosition{c, i}
		r := previous.reusableRunner(p)
		if r == nil {
			r = newRunner(e, at)
		}
		r.position.Store(&at)
		next.patterns = append(next.patterns, r.providerConfig.MatchImages)
		next.runners = append(next.runners, r)
	}
	next.index = index.New(next.patterns)
	next.hostIndex = sync.OnceValue(func() *index.Index { return index.New(patternHosts(next.patterns)) })
	return next
}

// reusableRunner returns the runner for p, or nil if p or its executable has changed.
func (c *compiledConfig) reusableRunner(p *config.Provider) *runner {
	if c != nil {
		for _, r := range c.runners {
			if r.name == p.Name && r.isUnchanged(p) {
				return r
			}
		}
	}
	return nil
}

// retireUnused cancels the background refreshes of runners that next does not use.
func (c *compiledConfig) retireUnused(next *compiledConfig) {
	for _, r := range c.runners {
		if !slices.Contains(next.runners, r) {
			r.cancelRefreshes()
		}
	}
}

// patternHosts returns the hosts of the patterns that have a path. It replaces each pattern
// without a path by text that matches nothing.
func patternHosts(patterns [][]string) [][]string {
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
	at, err := location.Parse(pattern)
	return err == nil && at.Path != ""
}

// appendMatchingCredentials appends the providers that match key. For a registry lookup, it also appends
// providers that match only some of the registry's images, because their patterns have a path.
func (c *compiledConfig) appendMatchingProviders(key lookupKey, hits []index.Hit) []index.Hit {
	hits = c.index.Match(key.location, hits)
	if !key.isRegistry() {
		return hits
	}
	for _, h := range c.hostIndex().Match(key.location, nil) {
		if !slices.ContainsFunc(hits, func(m index.Hit) bool { return m.List == h.List }) {
			hits = append(hits, h)
		}
	}
	slices.SortFunc(hits, func(a, b index.Hit) int { return a.List - b.List })
	return hits
}
