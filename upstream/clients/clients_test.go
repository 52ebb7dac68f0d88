// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClients: each client pulls a private image with nothing configured but
// the helper, says so if the password is wrong, and pulls a public image. In
// what clients differ is as [clients] has it.
func TestClients(t *testing.T) {
	requireRun(t)
	s := startSite(t)
	var table strings.Builder
	for _, c := range clients {
		if slow := c.module != "" || c.daemon; slow && !*all {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			requireClient(t, c)
			seen := newBench(t, s, c).observe(t)
			version := c.installed(t)
			table.WriteString(row(c.name, version, !t.Failed(), seen))
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
	t.Logf("what clients do, and what they ask the helper:\n%s%s", header, &table)
}

// requireClient skips the test of a client that is not installed, unless
// REGCRED_TEST_REQUIRE names it.
func requireClient(t *testing.T, c *client) {
	t.Helper()
	switch {
	case c.path() != "":
	case required(c.name):
		t.Fatalf("%s is not installed", c.name)
	default:
		t.Skipf("%s is not installed: Debian's package %s has it", c.name, c.pkg)
	}
}

const header = `| client | version | private, wrong password, public | Docker Hub | its keys | credsStore | public | helper fails | its stderr | wrong password | path patterns | files |
|---|---|---|---|---|---|---|---|---|---|---|---|
`

func row(name, version string, ok bool, seen traits) string {
	works := map[bool]string{true: "pulled, refused, pulled", false: "FAILED"}[ok]
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name, version, works,
		seen.Hub, seen.HubKeys, seen.Store, seen.Public, seen.OnError, seen.Aside, seen.Refused, seen.Patterns, seen.Files)
}
