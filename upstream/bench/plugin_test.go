// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/plugins"
)

// TestRemoteCalls verifies how many remote calls a plugin makes per response.
func TestRemoteCalls(t *testing.T) {
	b := newBench(t)
	upstream := must.Get(plugins.BuildUpstreamECR(b.dir))(t)
	vmhwm := must.Get(plugins.BuildInRepository(b.dir, "bench/vmhwm"))(t)
	for _, s := range benchSubjects() {
		t.Run(s.label, func(t *testing.T) {
			path := must.Get(plugins.Build(b.dir, s.name))(t)
			paths := []string{path}
			if s.recorded == nil {
				paths = append(paths, upstream)
			}
			seen := must.Get(s.measureFigures(vmhwm, paths, 1))(t)
			theirs := seen[len(seen)-1]
			if s.recorded != nil {
				theirs = *s.recorded
			}
			if got, want := seen[0].calls, s.targetCalls(theirs); got > want || got == 0 {
				t.Errorf("%d remote calls for one response, want at most %d", got, want)
			}
			if m := seen[0].memory; m < 1<<20 || m > 100<<20 {
				t.Errorf("%d bytes of memory at most: that is not what a plugin needs", m)
			}
		})
	}
}
