// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package tally

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// WriteMetrics writes c in the text format of Prometheus, as node_exporter's
// textfile collector reads it. Names carry their units.
func (c *Counts) WriteMetrics(w io.Writer) error {
	b := bufio.NewWriter(w)
	m := metrics{b}
	names := slices.Sorted(maps.Keys(c.Providers))

	m.head("regcred_provider_runs_total", "counter", "Times that a provider was asked, by result: credentials, none, skipped, or the stage at which it failed.")
	for _, n := range names {
		for _, result := range slices.Sorted(maps.Keys(c.Providers[n].Results)) {
			m.count("regcred_provider_runs_total", c.Providers[n].Results[result], "provider", n, "result", result)
		}
	}
	m.head("regcred_provider_run_duration_seconds", "summary", "How long the runs of a provider took.")
	for _, n := range names {
		m.value("regcred_provider_run_duration_seconds_sum", c.Providers[n].Seconds, "provider", n)
		m.count("regcred_provider_run_duration_seconds_count", c.Providers[n].Runs, "provider", n)
	}
	m.head("regcred_provider_last_run_timestamp_seconds", "gauge", "When a provider was last asked.")
	for _, n := range names {
		m.time("regcred_provider_last_run_timestamp_seconds", c.Providers[n].LastRun, "provider", n)
	}
	m.head("regcred_provider_last_error_timestamp_seconds", "gauge", "When a provider last failed.")
	for _, n := range names {
		if e := c.Providers[n].LastError; e != nil {
			m.time("regcred_provider_last_error_timestamp_seconds", e.Time, "provider", n, "stage", e.Stage)
		}
	}
	m.head("regcred_dispatcher_runs_total", "counter", "Questions of a kubelet, by result.")
	for _, result := range slices.Sorted(maps.Keys(c.Runs)) {
		m.count("regcred_dispatcher_runs_total", c.Runs[result], "result", result)
	}
	m.head("regcred_dispatcher_uncounted_runs_total", "counter", "Questions that are in no other of these numbers, since the file was busy.")
	m.count("regcred_dispatcher_uncounted_runs_total", c.Dropped)
	m.head("regcred_dispatcher_left_out_credentials_total", "counter", "Credentials that found no place in an answer.")
	m.count("regcred_dispatcher_left_out_credentials_total", c.WithoutKey)
	m.head("regcred_dispatcher_counted_since_timestamp_seconds", "gauge", "When these numbers began.")
	m.time("regcred_dispatcher_counted_since_timestamp_seconds", c.Since)
	return b.Flush()
}

// metrics writes lines of the format.
type metrics struct{ w io.Writer }

func (m metrics) head(name, kind, help string) {
	fmt.Fprintf(m.w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (m metrics) line(name, value string, labels []string) {
	var pairs []string
	for i := 0; i < len(labels); i += 2 {
		pairs = append(pairs, labels[i]+`="`+escape.Replace(strings.ToValidUTF8(labels[i+1], "?"))+`"`)
	}
	if len(pairs) > 0 {
		name += "{" + strings.Join(pairs, ",") + "}"
	}
	fmt.Fprintf(m.w, "%s %s\n", name, value)
}

func (m metrics) count(name string, n uint64, labels ...string) {
	m.line(name, strconv.FormatUint(n, 10), labels)
}

func (m metrics) value(name string, v float64, labels ...string) {
	m.line(name, strconv.FormatFloat(v, 'f', -1, 64), labels)
}

func (m metrics) time(name string, t time.Time, labels ...string) {
	m.line(name, strconv.FormatInt(t.Unix(), 10), labels)
}

// escape is what the format asks for in the value of a label.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
