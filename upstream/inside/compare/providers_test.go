// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package compare

import (
	"testing"
	"time"

	"github.com/regcred/regcred/upstream/node"
)

// TestProviders compares a pull for which three plugins run. Each of them takes 300 ms.
func TestProviders(t *testing.T) {
	node.SkipUnlessSupported(t)
	type result struct {
		execs int
		took  time.Duration // time from the first plugin's start to the first pull with a credential
	}
	var providers []provider
	for _, name := range []string{"first", "second", "third"} {
		providers = append(providers, provider{name: name, host: registryHost, script: "sleep 0.3"})
	}
	got := map[string]result{}
	for name, all := range alternateKubelets(t, func(t *testing.T, s kubeletVariant) (r result) {
		c := s.startNode(t, providers)
		if o := c.waitPod(t, c.runPod(t, c.newPod(t, registryHost, "app")), time.Now()); !o.pulled {
			t.Fatal(o)
		}
		began := time.Now()
		for _, p := range providers {
			for _, at := range c.pluginRunTimes(t, p.name) {
				r.execs++
				if at.Before(began) {
					began = at
				}
			}
		}
		r.took = c.pullTimes(registryHost, "team/app")[0].Sub(began)
		return r
	}) {
		got[name] = result{all[0].execs, medianDuration(all, func(r result) time.Duration { return r.took })}
	}
	b := newResultTable()
	b.addCounts("three providers of 0.3 s: execs", func(s string) int { return got[s].execs })
	b.addTimes("three providers of 0.3 s: first exec to first pull", func(s string) time.Duration { return got[s].took })
	b.logTable(t)
	for name, r := range got {
		if r.execs != len(providers) {
			t.Errorf("%s: %d execs, want %d: all matching providers are called", name, r.execs, len(providers))
		}
	}
}
