// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/upstream/isolated"
)

// TestClients verifies each client with the helper as its only source of credentials. The client
// must pull a private image, report a wrong password, and pull a public image. Differences between
// clients must match [clients].
func TestClients(t *testing.T) {
	isolatedTests.SkipUnlessAvailable(t)
	s := startSite(t)
	var asks, does strings.Builder
	for _, c := range clients {
		if slow := c.module != "" || c.daemon; slow && !*testAllClients {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			requireClient(t, c)
			seen, version := newClientObserver(t, s, c).observeTraits(t), c.requireInstalled(t)
			asks.WriteString(queriesRow(c.name, version, pullVerdicts[!t.Failed()], seen))
			does.WriteString(reactionsRow(c.name, seen))
			diff := cmp.Diff(c.traits, seen)
			switch {
			case diff == "":
			case version != c.version:
				t.Logf("%s is %s; that it differs from %s fails no test (-%[3]s +seen):\n%s", c.name, version, c.version, diff)
			default:
				t.Errorf("%s %s is no longer as it was (-then +now):\n%s", c.name, version, diff)
			}
		})
	}
	t.Logf("what clients ask the helper, and what they do:\n%s%s\n%s%s", queriesHeader, &asks, reactionsHeader, &does)
}

// requireClient skips the test of a client that is not installed, unless
// REGCRED_TEST_REQUIRE names it.
func requireClient(t *testing.T, c *client) {
	t.Helper()
	switch {
	case c.path() != "":
	case isolated.IsRequired(c.name):
		t.Fatalf("%s is not installed", c.name)
	default:
		t.Skipf("%s is not installed: Debian's package %s has it", c.name, c.pkg)
	}
}
