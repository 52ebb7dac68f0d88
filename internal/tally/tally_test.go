// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package tally

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// noon is when these tests count.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 5, time.UTC)

// TestWriteMetrics: what node_exporter reads, whole.
func TestWriteMetrics(t *testing.T) {
	c := newCounts(noon)
	c.add(Batch{Runs: []Run{{Provider: "ecr", Result: Found, Duration: 1500 * time.Millisecond}, {Provider: `odd"name\`, Result: Skipped}}}, noon)
	c.add(Batch{WithoutKey: 2, Err: "no credentials", Runs: []Run{{Provider: "ecr", Result: "timeout", Duration: time.Second, Err: "no answer"}}}, noon.Add(time.Minute))
	c.Dropped = 3
	var b strings.Builder
	if err := c.WriteMetrics(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "# HELP ") {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	want := []string{
		"# TYPE regcred_provider_runs_total counter",
		`regcred_provider_runs_total{provider="ecr",result="credentials"} 1`,
		`regcred_provider_runs_total{provider="ecr",result="timeout"} 1`,
		`regcred_provider_runs_total{provider="odd\"name\\",result="skipped"} 1`,
		"# TYPE regcred_provider_run_duration_seconds summary",
		`regcred_provider_run_duration_seconds_sum{provider="ecr"} 2.5`,
		`regcred_provider_run_duration_seconds_count{provider="ecr"} 2`,
		`regcred_provider_run_duration_seconds_sum{provider="odd\"name\\"} 0`,
		`regcred_provider_run_duration_seconds_count{provider="odd\"name\\"} 0`,
		"# TYPE regcred_provider_last_run_timestamp_seconds gauge",
		`regcred_provider_last_run_timestamp_seconds{provider="ecr"} 1767355260`,
		`regcred_provider_last_run_timestamp_seconds{provider="odd\"name\\"} 1767355200`,
		"# TYPE regcred_provider_last_error_timestamp_seconds gauge",
		`regcred_provider_last_error_timestamp_seconds{provider="ecr",stage="timeout"} 1767355260`,
		"# TYPE regcred_dispatcher_runs_total counter",
		`regcred_dispatcher_runs_total{result="answered"} 1`,
		`regcred_dispatcher_runs_total{result="failed"} 1`,
		"# TYPE regcred_dispatcher_uncounted_runs_total counter",
		"regcred_dispatcher_uncounted_runs_total 3",
		"# TYPE regcred_dispatcher_left_out_credentials_total counter",
		"regcred_dispatcher_left_out_credentials_total 2",
		"# TYPE regcred_dispatcher_counted_since_timestamp_seconds gauge",
		"regcred_dispatcher_counted_since_timestamp_seconds 1767355200",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestBounds: whatever is counted, what is kept is bounded, and readable again.
func TestBounds(t *testing.T) {
	c := newCounts(noon)
	for i := range 3 * maxProviders {
		at := noon.Add(time.Duration(i) * time.Second)
		c.add(Batch{Runs: []Run{
			{Provider: fmt.Sprintf("p%d", i), Result: Found},
			{Provider: "busy", Result: fmt.Sprintf("stage%d", i), Err: strings.Repeat("é\n\x1b", 2000), Duration: -time.Second},
			{Provider: strings.Repeat("n", maxName+1), Result: Found},
		}}, at)
	}
	busy := c.Providers["busy"]
	if len(c.Providers) != maxProviders || c.Providers["p0"] != nil || busy == nil || len(busy.Results) != maxResults || busy.Results[other] == 0 || busy.Seconds != 0 {
		t.Errorf("%d providers, first %v, busy %+v", len(c.Providers), c.Providers["p0"], busy)
	}
	if m := busy.LastError.Message; len(m) > maxMessage+len("…") || strings.ContainsAny(m, "\n\x1b\ufffd") {
		t.Errorf("message of %d bytes: %q", len(m), m)
	}
	if !c.sound() {
		t.Error("what was counted would not be read")
	}
}

// TestSound: what this package did not write is no count.
func TestSound(t *testing.T) {
	for name, spoil := range map[string]func(*Counts){
		"later":             func(c *Counts) { c.SchemaVersion++ },
		"no provider":       func(c *Counts) { c.Providers["p"] = nil },
		"negative":          func(c *Counts) { c.Providers["p"].Seconds = -1 },
		"not a number":      func(c *Counts) { c.Providers["p"].Seconds = math.NaN() },
		"long name":         func(c *Counts) { c.Providers[strings.Repeat("n", maxName+1)] = &Provider{} },
		"too many results":  func(c *Counts) { many(c.Providers["p"].Results) },
		"too many of a run": func(c *Counts) { many(c.Runs) },
	} {
		c := newCounts(noon)
		c.add(Batch{Runs: []Run{{Provider: "p", Result: Found}}}, noon)
		if !c.sound() {
			t.Fatal("it is not sound as it is")
		}
		if spoil(c); c.sound() {
			t.Errorf("%s: sound", name)
		}
	}
}

func many(m map[string]uint64) {
	for i := range maxResults + 1 {
		m[fmt.Sprint(i)] = 1
	}
}
