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

// rungs is up to how many labels a host may have for AnyImage. No kubelet bounds
// the number of patterns, and a name in the DNS may have 127 labels; real
// registries have 8 at most (vpce-….dkr.ecr.….vpce.amazonaws.com has 7). A
// pattern with more is covered by itself.
const rungs = 16

// Options say what entries are to be like beside the providers that they are
// for. The zero value is for the newest kubelet, patterns of the providers alone,
// and a node that had no entries.
type Options struct {
	// Known are all entries that may be in the memory of a kubelet or come back
	// with a rollback, the most important first. Their names are kept, and given
	// to no other tokenAttributes: the dispatcher knows by its name for whom the
	// token is that it is given.
	Known []Entry
	// Reserve has patterns of images whose providers may come later without a
	// restart.
	Reserve []string
	// AnyImage makes entries for all hosts of up to 16 labels without a port, and
	// for those ports that patterns name: a port cannot be left open.
	AnyImage bool
	Target   config.Target // the kubelet that will read them
}

// Derive returns the entries for the providers of a generation: one for each
// distinct tokenAttributes, in the order of their names. With Reserve or
// AnyImage, whose patterns each entry gets, there is one without tokens too. A
// pattern that another one of its entry covers is left out. Without providers
// and patterns there are none. What the kubelet would reject is an error.
func Derive(providers []config.Provider, o Options) ([]Entry, error) {
	open, err := o.patterns()
	if err != nil {
		return nil, err
	}
	list := grouped(providers)
	if len(open) > 0 && !slices.ContainsFunc(list, func(e Entry) bool { return e.TokenAttributes == nil }) {
		list = append(list, Entry{APIVersion: plugin.V1})
	}
	for i := range list {
		list[i].MatchImages = widest(slices.Concat(open, list[i].MatchImages))
	}
	o.name(list)
	slices.SortFunc(list, func(a, b Entry) int { return number(a.Name) - number(b.Name) })
	return list, validate(list, o.Target)
}

// patterns are those that every entry gets.
func (o Options) patterns() (list []string, err error) {
	for n := 1; o.AnyImage && n <= rungs; n++ {
		list = append(list, strings.Repeat("*.", n-1)+"*")
	}
	for _, s := range o.Reserve {
		if _, err := match.Parse(s); err != nil {
			return nil, fmt.Errorf("%q cannot be reserved: %w", excerpt.Pattern(s), err)
		}
	}
	return append(list, o.Reserve...), nil
}

// grouped returns an entry without a name for each distinct tokenAttributes.
func grouped(providers []config.Provider) (list []Entry) {
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

// name gives names to entries.
func (o Options) name(list []Entry) {
	owners := map[int]*config.TokenAttributes{}
	for _, e := range o.Known {
		if n := number(e.Name); n > 0 && !has(owners, n) {
			owners[n] = e.TokenAttributes
		}
	}
	for i := range list {
		n := o.known(list[i].TokenAttributes, owners)
		for k := 1; n == 0; k++ {
			if !has(owners, k) {
				n, owners[k] = k, list[i].TokenAttributes
			}
		}
		list[i].Name = Numbered(n)
	}
}

// known returns the number that tokenAttributes have had; 0 if they are new.
func (o Options) known(t *config.TokenAttributes, owners map[int]*config.TokenAttributes) int {
	for _, e := range o.Known {
		if n := number(e.Name); n > 0 && sameTokens(e.TokenAttributes, t) && sameTokens(owners[n], t) {
			return n
		}
	}
	return 0
}

func has[V any](m map[int]V, n int) bool { _, ok := m[n]; return ok }

// validate says what the kubelet would reject, and in which entry.
func validate(list []Entry, target config.Target) error {
	for i := range list {
		e := &list[i]
		c := config.Config{Providers: []config.Provider{e.Provider()}}
		if err := c.ValidateFor(target); err != nil {
			return fmt.Errorf("the kubelet would reject the entry %q: %w", e.Name, err)
		}
	}
	return nil
}
