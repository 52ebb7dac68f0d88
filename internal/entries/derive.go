// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// maxAnyImageLabels is the number of labels in the longest host that AnyImage covers.
// Kubelets do not limit the number of patterns, and a DNS name may have 127 labels, but
// real registries have at most 8. A pattern with more labels is added unchanged.
const maxAnyImageLabels = 16

// Options changes how entries are derived. The zero value means the newest kubelet, a
// node without entries, and only the providers' patterns.
type Options struct {
	// KnownEntries lists the entries that a kubelet may have in memory or that a rollback may
	// restore, most important first. Entries with the same tokenAttributes keep these
	// names. Entries with other tokenAttributes get other names, because the dispatcher
	// identifies its entry, and thus the token, by the name under which it runs.
	KnownEntries []Entry
	// ReservedPatterns lists image patterns to cover in advance, so that providers for these
	// images can be added later without a restart.
	ReservedPatterns []string
	// AnyImage covers all hosts of up to 16 labels without a port. Hosts with a port need
	// a pattern with this port, because a single pattern cannot match every port.
	AnyImage bool
	Target   config.Target // the kubelet that will read the entries
}

// Derive returns the entries for the providers of a generation, sorted by name. There is
// one entry for each distinct tokenAttributes. The patterns of Reserve and AnyImage are
// added to every entry, and if there are any, also to an entry without tokenAttributes.
// Patterns that another pattern of the entry covers are left out. Derive returns an error
// if the kubelet would reject an entry.
func Derive(providers []config.Provider, o Options) ([]Entry, error) {
	open, err := o.sharedPatterns()
	if err != nil {
		return nil, err
	}
	list := groupByTokenAttributes(providers)
	if len(open) > 0 && !slices.ContainsFunc(list, func(e Entry) bool { return e.TokenAttributes == nil }) {
		list = append(list, Entry{APIVersion: plugin.V1})
	}
	for i := range list {
		list[i].MatchImages = removeCovered(slices.Concat(open, list[i].MatchImages))
	}
	o.assignNames(list)
	slices.SortFunc(list, func(a, b Entry) int { return entryNumber(a.Name) - entryNumber(b.Name) })
	return list, validateEntries(list, o.Target)
}

// sharedPatterns returns the patterns that are added to every entry.
func (o Options) sharedPatterns() (list []string, err error) {
	for n := 1; o.AnyImage && n <= maxAnyImageLabels; n++ {
		list = append(list, strings.Repeat("*.", n-1)+"*")
	}
	for _, s := range o.ReservedPatterns {
		if _, err := match.Parse(s); err != nil {
			return nil, fmt.Errorf("%q cannot be reserved: %w", excerpt.RedactPattern(s), err)
		}
	}
	return append(list, o.ReservedPatterns...), nil
}

// groupByTokenAttributes returns one entry, without a name, for each distinct
// tokenAttributes.
func groupByTokenAttributes(providers []config.Provider) (list []Entry) {
	for _, p := range providers {
		i := slices.IndexFunc(list, func(e Entry) bool { return e.Serves(&p) })
		if i < 0 {
			i = len(list)
			list = append(list, Entry{APIVersion: plugin.V1, TokenAttributes: p.TokenAttributes})
		}
		list[i].MatchImages = append(list[i].MatchImages, p.MatchImages...)
	}
	return list
}

func (o Options) assignNames(list []Entry) {
	owners := map[int]*config.TokenAttributes{}
	for _, e := range o.KnownEntries {
		n := entryNumber(e.Name)
		if _, taken := owners[n]; n > 0 && !taken {
			owners[n] = e.TokenAttributes
		}
	}
	for i := range list {
		n := o.knownNumber(list[i].TokenAttributes, owners)
		for k := 1; n == 0; k++ {
			if _, taken := owners[k]; !taken {
				n, owners[k] = k, list[i].TokenAttributes
			}
		}
		list[i].Name = NumberedName(n)
	}
}

// knownNumber returns the number of the known entry with the given tokenAttributes, or 0.
func (o Options) knownNumber(t *config.TokenAttributes, owners map[int]*config.TokenAttributes) int {
	for _, e := range o.KnownEntries {
		if n := entryNumber(e.Name); n > 0 && equivalentTokens(e.TokenAttributes, t) && equivalentTokens(owners[n], t) {
			return n
		}
	}
	return 0
}

// validateEntries returns an error if the kubelet would reject an entry.
func validateEntries(list []Entry, target config.Target) error {
	for i := range list {
		e := &list[i]
		c := config.Config{Providers: []config.Provider{e.Provider()}}
		if err := c.ValidateFor(target); err != nil {
			return fmt.Errorf("the kubelet would reject the entry %q: %w", e.Name, err)
		}
	}
	return nil
}

// SetDefaultCacheType sets the cacheType of tokenAttributes that have none, which only
// kubelet 1.33 accepts. The default is [config.CachePerToken], because a plugin may return
// the token as the password. Changed tokenAttributes are copied.
func SetDefaultCacheType(providers []config.Provider) {
	for i := range providers {
		if p := &providers[i]; p.TokenAttributes != nil && p.TokenAttributes.CacheType == "" {
			t := *p.TokenAttributes
			t.CacheType = config.CachePerToken
			p.TokenAttributes = &t
		}
	}
}
