// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/gcr"
)

// TestLeavesNoConnections verifies that providers keep no connection after a response.
func TestLeavesNoConnections(t *testing.T) {
	w := newTestCloud(t)
	before := runtime.NumGoroutine()
	for range 50 {
		mustGetCredentials(t, w.newProvider(t, gcr.Options{}), &plugin.Request{Image: "gcr.io/project/app"})
	}
	after := 0
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if after = runtime.NumGoroutine(); after <= before+8 {
			return
		}
	}
	t.Errorf("%d goroutines 5 s after 50 answers, %d before", after, before)
}
