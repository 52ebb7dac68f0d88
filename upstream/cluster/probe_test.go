// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"strings"
	"testing"

	"github.com/regcred/regcred/upstream/node"
)

// TestProbe verifies that install rolls back a change if the image of --probe cannot be pulled,
// although the restarted kubelet is healthy.
func TestProbe(t *testing.T) {
	node.SkipUnlessSupported(t)
	l := startLifecycleMachine(t, node.MachineOptions{})
	image := l.registry[firstHost].PushApp(t, "team/probe", "v1")
	l.checkRestart(t, func() {
		l.checkUnchanged(t, func() {
			said := l.install(t, 1, "first.yaml", "--restart", "--stable=2s", "--probe", l.registry[laterHost].PushApp(t, "team/probe", "v1"))
			if !strings.Contains(said, "the test pull failed: ") || !strings.Contains(said, "401") || !strings.Contains(said, "the change was rolled back") {
				t.Errorf("it says\n%s", said)
			}
		})
	})
	before := l.registry[firstHost].ManifestRequests("team/probe")
	l.checkRestart(t, func() { l.install(t, 0, "first.yaml", "--restart", "--stable=2s", "--probe", image) })
	if now := l.registry[firstHost].ManifestRequests("team/probe"); len(now) <= len(before) {
		t.Errorf("pulls before %v, after %v", before, now)
	}
	l.runRegcred(t, v1, 0, "status")
}
