// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"testing"

	"github.com/regcred/regcred/upstream/plugins"
)

// TestRemoteCalls counts the remote calls of plugins per response.
func TestRemoteCalls(t *testing.T) {
	b := newBench(t)
	upstream, err := plugins.BuildUpstreamECR(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	vmhwm, err := plugins.BuildHere(b.dir, "bench/vmhwm")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range benchSubjects() {
		t.Run(s.label, func(t *testing.T) {
			path, err := plugins.Build(b.dir, s.name)
			if err != nil {
				t.Fatal(err)
			}
			paths := []string{path}
			if s.recorded == nil {
				paths = append(paths, upstream)
			}
			seen, err := s.measure(vmhwm, paths, 1)
			if err != nil {
				t.Fatal(err)
			}
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
