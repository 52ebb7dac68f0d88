// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// TestClockIsSet verifies that the deadline and the print interval use the monotonic clock,
// so that a clock change on the node does not make the agent unhealthy.
func TestClockIsSet(t *testing.T) {
	a := &Agent{Options: Options{WorkDir: t.TempDir()}, PrintStatus: func([]byte) error { return nil }}
	must.Do(t, a.initialize(t.Context()))
	for name, at := range map[string]time.Time{"until": a.turnDeadline, "lastPrinted": a.lastPrinted} {
		if !strings.Contains(at.String(), " m=") { // see "Monotonic Clocks" in package time
			t.Errorf("%s is %v, by the wall clock alone", name, at)
		}
	}
}
