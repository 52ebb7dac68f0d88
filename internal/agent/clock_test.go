// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"strings"
	"testing"
	"time"
)

// TestClockIsSet: whether an agent is alive, and when it prints again, is told by a
// clock that nobody sets: an agent whose node's clock jumps is not killed for it.
func TestClockIsSet(t *testing.T) {
	a := &Agent{Options: Options{Work: t.TempDir()}, Print: func([]byte) error { return nil }}
	if err := a.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]time.Time{"until": a.until, "lastPrinted": a.lastPrinted} {
		if !strings.Contains(at.String(), " m=") { // see package time, Monotonic Clocks
			t.Errorf("%s is %v, by the wall clock alone", name, at)
		}
	}
}
