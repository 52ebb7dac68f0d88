// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestNodes verifies that each plugin and the floor program respond under each network condition.
func TestNodes(t *testing.T) {
	if out, err := exec.Command("unshare", "--map-root-user", "--net", "--mount", "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Skipf("it needs namespaces of its own: %v: %s", err, out)
	}
	rows := must.Get(benchNodePlugins(newBench(t)))(t)
	got := map[string]int{}
	for _, r := range rows {
		_, beside, _ := strings.Cut(r.Upstream, "(")
		got[strings.TrimSuffix(beside, ")")]++
	}
	if want := len(networkConditions)*len(nodeSubjects()) - 1; got[floorDir] != want || got[upstreamDir] != 4 {
		t.Errorf("rows beside others: %v, want %d of the floor and 4 of upstream", got, want)
	}
}

// TestCloneLacksCommit verifies the error if the clone does not contain the base commit.
func TestCloneLacksCommit(t *testing.T) {
	b := newBench(t)
	b.baseCommit = "0000000000000000000000000000000000000001"
	err := b.buildBaseCommit(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "this clone does not have that commit") {
		t.Errorf("error %v", err)
	}
}
