// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// TestLeavesNoConnections verifies that a program that calls the provider repeatedly
// keeps no connections.
func TestLeavesNoConnections(t *testing.T) {
	newCloud(t, staticKeysEnv()...)
	p := newProvider(t, shortTimeouts())
	before := runtime.NumGoroutine()
	for range 50 {
		must.Get(p.GetCredentials(t.Context(), imageRequest(privateHost)))(t)
	}
	after := 0
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if after = runtime.NumGoroutine(); after <= before+8 { // a connection has two goroutines on each side
			return
		}
	}
	t.Errorf("%d goroutines 20 s after 50 runs, %d before", after, before)
}
