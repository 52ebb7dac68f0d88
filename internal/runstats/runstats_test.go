// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package runstats

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// testTime is the time in these tests.
var testTime = time.Date(2026, 1, 2, 12, 0, 0, 5, time.UTC)

// TestBounds verifies that the stored counts have a limited size and remain readable, whatever is
// counted.
func TestBounds(t *testing.T) {
	c := newCounts(testTime)
	for i := range 3 * maxProviders {
		at := testTime.Add(time.Duration(i) * time.Second)
		c.addBatch(Batch{Runs: []Run{
			{Provider: fmt.Sprintf("p%d", i), Result: ResultFound},
			{Provider: "busy", Result: fmt.Sprintf("stage%d", i), Err: strings.Repeat("é\n\x1b", 2000), Duration: -time.Second},
			{Provider: strings.Repeat("n", maxNameLength+1), Result: ResultFound},
		}}, at)
	}
	busy := c.Providers["busy"]
	if len(c.Providers) != maxProviders || c.Providers["p0"] != nil || busy == nil || len(busy.Results) != maxResults || busy.Results[otherResult] == 0 || busy.Seconds != 0 {
		t.Errorf("%d providers, first %v, busy %+v", len(c.Providers), c.Providers["p0"], busy)
	}
	if m := busy.LastError.Message; len(m) > maxMessageLength+len("…") || strings.ContainsAny(m, "\n\x1b\ufffd") {
		t.Errorf("message of %d bytes: %q", len(m), m)
	}
	if !c.IsValid() {
		t.Error("the counts could not be read")
	}
}

// TestDataIsValidated verifies that IsValid rejects data that this package does not write.
func TestDataIsValidated(t *testing.T) {
	for name, spoil := range map[string]func(*Counts){
		"later":             func(c *Counts) { c.SchemaVersion++ },
		"no provider":       func(c *Counts) { c.Providers["p"] = nil },
		"negative":          func(c *Counts) { c.Providers["p"].Seconds = -1 },
		"not a number":      func(c *Counts) { c.Providers["p"].Seconds = math.NaN() },
		"long name":         func(c *Counts) { c.Providers[strings.Repeat("n", maxNameLength+1)] = &Provider{} },
		"too many results":  func(c *Counts) { manyResults(c.Providers["p"].Results) },
		"too many of a run": func(c *Counts) { manyResults(c.Runs) },
	} {
		c := newCounts(testTime)
		c.addBatch(Batch{Runs: []Run{{Provider: "p", Result: ResultFound}}}, testTime)
		if !c.IsValid() {
			t.Fatal("it is not sound as it is")
		}
		if spoil(c); c.IsValid() {
			t.Errorf("%s: sound", name)
		}
	}
}

func manyResults(m map[string]uint64) {
	for i := range maxResults + 1 {
		m[fmt.Sprint(i)] = 1
	}
}
