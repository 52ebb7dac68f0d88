// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package compare

import (
	"testing"
	"time"

	"github.com/regcred/regcred/upstream/node"
)

// TestProviders: three providers that are for one image, each of which takes 300 ms.
func TestProviders(t *testing.T) {
	node.Require(t)
	type result struct {
		execs int
		took  time.Duration // from the first plugin's start to the first pull with a credential
	}
	var providers []provider
	for _, name := range []string{"first", "second", "third"} {
		providers = append(providers, provider{name: name, host: host, script: "sleep 0.3"})
	}
	got := each(t, false, func(t *testing.T, s side) (r result) {
		var all []result
		for range *rounds {
			t.Run("round", func(t *testing.T) {
				c := s.start(t, providers)
				if o := c.wait(t, c.run(t, c.pod(t, host, "app")), time.Now()); !o.pulled {
					t.Fatal(o)
				}
				var one result
				began := time.Now()
				for _, p := range providers {
					for _, at := range c.runs(t, p.name) {
						one.execs++
						if at.Before(began) {
							began = at
						}
					}
				}
				one.took = c.pulls(host, "team/app")[0].Sub(began)
				all = append(all, one)
			})
		}
		if t.Failed() {
			t.FailNow()
		}
		return result{all[0].execs, median(all, func(r result) time.Duration { return r.took })}
	})
	b := newTable()
	b.counts("three providers of 0.3 s: execs", func(s string) int { return got[s].execs })
	b.times("three providers of 0.3 s: first exec to first pull", func(s string) time.Duration { return got[s].took })
	b.print(t)
	for name, r := range got {
		if r.execs != len(providers) {
			t.Errorf("%s: %d execs, want %d: all that match are asked", name, r.execs, len(providers))
		}
	}
}
