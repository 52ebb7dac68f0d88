// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
)

// The tests of this package check counts. They check no times, which depend on the machine.

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == insideNamespacesArg {
		main()
		return
	}
	kubelet.DisableLog()
	os.Exit(m.Run())
}

func newBench(t *testing.T) *bench {
	return &bench{dir: t.TempDir(), rounds: 1, sliceDuration: time.Millisecond, runs: 1}
}

func TestMatchAllocations(t *testing.T) {
	p := must.Get(match.Parse("*.registry.example:5000/team"))(t)
	matched := false
	n := allocsPerCall(func(int) { matched = p.Match("eu.registry.example:5000/team/app") })
	if n != 0 || !matched {
		t.Errorf("Match: %t with %.0f allocations, want true with 0", matched, n)
	}
}

func TestCachedLookupAllocations(t *testing.T) {
	for _, patterns := range []int{10, 1_000} {
		w := must.Get(newBench(t).newCachedBench(patterns, 10))(t)
		if n := allocsPerCall(w.regcredLookup); n > 3 {
			t.Errorf("%d patterns: a cached Lookup makes %.0f allocations, want at most 3", patterns, n)
		}
		w.keyring.Close()
	}
}

func TestBurstExecs(t *testing.T) {
	s, ring, err := newBench(t).openUncached([]provider{{[]string{"registry.example.com"}, pluginScript("sleep 0.1", plugin.CacheRegistry, "1h")}})
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	found := make([]int, 200)
	runConcurrently(len(found), func(i int) { found[i] = regcredLookup(ring, fmt.Sprintf("registry.example.com/app-%d:v1", i)) })
	for i, n := range found {
		if n != 1 {
			t.Errorf("image %d: %d credentials, want 1", i, n)
		}
	}
	if n := s.takeRunCounts(); n != 1 {
		t.Errorf("200 images of one registry: %d execs, want 1", n)
	}
}

// TestReport verifies the report as a table and as JSON.
func TestReport(t *testing.T) {
	var table, js bytes.Buffer
	for output, w := range map[string]io.Writer{"table": &table, "json": &js} {
		must.Do(t, run(w, options{output: output, rounds: 1, only: "match"}))
	}
	if !strings.Contains(table.String(), "| `Pattern.Match`") {
		t.Errorf("the table lacks its row:\n%s", table.String())
	}
	var rep report
	if err := json.Unmarshal(js.Bytes(), &rep); err != nil || len(rep.Rows) != 1 || rep.Kubelet == "" {
		t.Errorf("JSON with %d rows, error %v; want 1", len(rep.Rows), err)
	}
}
