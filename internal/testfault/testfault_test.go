// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testfault

import (
	"slices"
	"testing"
)

// TestNext verifies that if several faults match, only the first one applies and counts the
// request.
func TestNext(t *testing.T) {
	var s FaultSet[string]
	first := s.Inject("a", 1, 0)
	second := s.Inject("a or b", 0, 2)
	third := s.Inject("b", 0, Forever)
	got := func(requests ...string) (struck []string) {
		for _, r := range requests {
			fault := "-"
			if f := s.Next(func(f string) bool { return f == r || f == "a or b" }); f != nil {
				fault = *f
			}
			struck = append(struck, fault)
		}
		return struck
	}
	want := []string{"-", "a", "a or b", "a or b", "-", "b", "b"}
	if got := got("a", "a", "a", "b", "a", "b", "b"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if a, b, c := first.Hits(), second.Hits(), third.Hits(); a != 1 || b != 2 || c != 2 {
		t.Errorf("%d, %d and %d hits, want 1, 2 and 2", a, b, c)
	}
	third.Remove()
	if got := got("b"); got[0] != "-" || third.Hits() != 2 {
		t.Errorf("after Remove: %q, %d hits", got, third.Hits())
	}
	s.Inject("c", 0, Forever)
	s.Clear()
	if got := got("c"); got[0] != "-" {
		t.Errorf("after Clear: %q", got)
	}
}
