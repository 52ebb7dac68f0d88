// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"slices"
	"testing"
)

// TestMirrorLifetime verifies that a pull-through cache calls the helper only once, unless its
// configuration sets a lifetime for credentials.
func TestMirrorLifetime(t *testing.T) {
	isolatedTests.SkipUnlessAvailable(t)
	if !*testAllClients {
		t.Skip("it builds distribution's registry: go test ./clients -args -all")
	}
	registry := *clients[slices.IndexFunc(clients, func(c *client) bool { return c.name == "registry" })]
	s := startSite(t)
	for lifetime, once := range map[string]bool{"": true, ", lifetime: 0s": false} {
		registry.pull = func(t *testing.T, j pullJob) (ok bool, said string) {
			return pullThroughMirror(t, j, lifetime, appRepository, policyRepository)
		}
		b := newClientObserver(t, s, &registry)
		o := b.pull(t, "lifetime"+lifetime, privateHost+":5000", b.rightConfig, dockerConfigSetting("{}"))
		if got := len(o.calls) == 1; !o.ok || got != once {
			t.Errorf("%q: pulled %t, the helper was called %d times", lifetime, o.ok, len(o.calls))
		}
	}
}
