// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/runstats"
	"github.com/regcred/regcred/internal/runstats/metrics"
)

// testTime is the time in these tests.
var testTime = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestWrite verifies the complete metrics output.
func TestWrite(t *testing.T) {
	c := &runstats.Counts{
		SchemaVersion: 1, Since: testTime, DroppedBatches: 3, DroppedCredentials: 2,
		Runs: map[string]uint64{runstats.RunSucceeded: 1, runstats.RunFailed: 1},
		Providers: map[string]*runstats.Provider{
			"ecr":       {Results: map[string]uint64{runstats.ResultFound: 1, "timeout": 1}, Runs: 2, Seconds: 2.5, LastRun: testTime.Add(time.Minute), LastError: &runstats.Error{Time: testTime.Add(time.Minute), Stage: "timeout", Message: "no answer"}},
			`odd"name\`: {Results: map[string]uint64{runstats.ResultSkipped: 1}, LastRun: testTime},
		},
	}
	var b strings.Builder
	must.Do(t, metrics.Write(&b, c))
	var got []string
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "# HELP ") {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	want := []string{
		"# TYPE regcred_dispatcher_counted_since_timestamp_seconds gauge",
		"regcred_dispatcher_counted_since_timestamp_seconds 1.7673552e+09",
		"# TYPE regcred_dispatcher_left_out_credentials_total counter",
		"regcred_dispatcher_left_out_credentials_total 2",
		"# TYPE regcred_dispatcher_runs_total counter",
		`regcred_dispatcher_runs_total{result="answered"} 1`,
		`regcred_dispatcher_runs_total{result="failed"} 1`,
		"# TYPE regcred_dispatcher_uncounted_runs_total counter",
		"regcred_dispatcher_uncounted_runs_total 3",
		"# TYPE regcred_provider_last_error_timestamp_seconds gauge",
		`regcred_provider_last_error_timestamp_seconds{provider="ecr",stage="timeout"} 1.76735526e+09`,
		"# TYPE regcred_provider_last_run_timestamp_seconds gauge",
		`regcred_provider_last_run_timestamp_seconds{provider="ecr"} 1.76735526e+09`,
		`regcred_provider_last_run_timestamp_seconds{provider="odd\"name\\"} 1.7673552e+09`,
		"# TYPE regcred_provider_run_duration_seconds summary",
		`regcred_provider_run_duration_seconds_sum{provider="ecr"} 2.5`,
		`regcred_provider_run_duration_seconds_count{provider="ecr"} 2`,
		`regcred_provider_run_duration_seconds_sum{provider="odd\"name\\"} 0`,
		`regcred_provider_run_duration_seconds_count{provider="odd\"name\\"} 0`,
		"# TYPE regcred_provider_runs_total counter",
		`regcred_provider_runs_total{provider="ecr",result="credentials"} 1`,
		`regcred_provider_runs_total{provider="ecr",result="timeout"} 1`,
		`regcred_provider_runs_total{provider="odd\"name\\",result="skipped"} 1`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	problems, err := promlint.New(strings.NewReader(b.String())).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promtool would say %v, %v", problems, err)
	}
}

// TestWriteBeforeFirstRun verifies the output before the dispatcher's first run.
func TestWriteBeforeFirstRun(t *testing.T) {
	for name, c := range map[string]*runstats.Counts{"none": nil, "empty": {}} {
		var b strings.Builder
		if err := metrics.Write(&b, c); err != nil || b.Len() > 0 {
			t.Errorf("%s: %q, %v", name, b.String(), err)
		}
	}
}

// TestWriteBroken verifies that a provider name that is not UTF-8 causes an error.
func TestWriteBroken(t *testing.T) {
	c := &runstats.Counts{Since: testTime, Providers: map[string]*runstats.Provider{"a\xff": {Results: map[string]uint64{runstats.ResultFound: 1}}}}
	var b strings.Builder
	if err := metrics.Write(&b, c); err == nil {
		t.Errorf("written: %s", b.String())
	}
}
