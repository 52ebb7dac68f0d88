// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package metrics exports the counts of package runstats to Prometheus: in a file for
// node_exporter's textfile collector, or with a [Collector]. The names of the
// metrics contain their units.
//
//	err := metrics.Write(os.Stdout, counts)
//	registry.MustRegister(metrics.Collector{Counts: func() *runstats.Counts { return counts }})
//
// It is separate from package runstats, so that the dispatcher does not link a
// Prometheus client.
package metrics

import (
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/regcred/regcred/internal/runstats"
)

// Collector implements prometheus.Collector. It is safe for concurrent use if Counts
// is.
type Collector struct {
	Counts func() *runstats.Counts // the result must not change afterwards; nil means no counts yet
}

// Describe sends no descriptors, because the set of metrics depends on the counts.
func (Collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the current counts as metrics.
func (c Collector) Collect(to chan<- prometheus.Metric) {
	counts := c.Counts()
	if counts == nil || counts.Since.IsZero() {
		return
	}
	s := metricSender{to}
	for name, p := range counts.Providers {
		for result, n := range p.Results {
			s.sendCounter("regcred_provider_runs_total", "Number of provider runs by result: credentials, none, skipped, or the stage that failed.", n, "provider", name, "result", result)
		}
		s.sendSummary("regcred_provider_run_duration_seconds", "Duration of provider runs.", p.Runs, p.Seconds, "provider", name)
		s.sendTimestamp("regcred_provider_last_run_timestamp_seconds", "Time of a provider's last run.", p.LastRun, "provider", name)
		if e := p.LastError; e != nil {
			s.sendTimestamp("regcred_provider_last_error_timestamp_seconds", "Time of a provider's last failure.", e.Time, "provider", name, "stage", e.Stage)
		}
	}
	for result, n := range counts.Runs {
		s.sendCounter("regcred_dispatcher_runs_total", "Number of kubelet requests by result.", n, "result", result)
	}
	s.sendCounter("regcred_dispatcher_uncounted_runs_total", "Number of kubelet requests missing from the other metrics because the file was locked.", counts.DroppedBatches)
	s.sendCounter("regcred_dispatcher_left_out_credentials_total", "Number of credentials omitted from responses.", counts.DroppedCredentials)
	s.sendTimestamp("regcred_dispatcher_counted_since_timestamp_seconds", "Time when counting started.", counts.Since)
}

// Write writes the counts in the Prometheus text format.
func Write(w io.Writer, c *runstats.Counts) error {
	registry := prometheus.NewRegistry()
	if err := registry.Register(Collector{func() *runstats.Counts { return c }}); err != nil {
		return err
	}
	families, err := registry.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return err
		}
	}
	return nil
}

// metricSender sends metrics to a channel. Labels are passed as alternating names and values.
type metricSender struct{ to chan<- prometheus.Metric }

func (s metricSender) sendCounter(name, help string, n uint64, labels ...string) {
	desc, values := newDesc(name, help, labels)
	s.sendFunc(desc)(prometheus.NewConstMetric(desc, prometheus.CounterValue, float64(n), values...))
}

func (s metricSender) sendTimestamp(name, help string, t time.Time, labels ...string) {
	desc, values := newDesc(name, help, labels)
	s.sendFunc(desc)(prometheus.NewConstMetric(desc, prometheus.GaugeValue, float64(t.Unix()), values...))
}

func (s metricSender) sendSummary(name, help string, n uint64, sum float64, labels ...string) {
	desc, values := newDesc(name, help, labels)
	s.sendFunc(desc)(prometheus.NewConstSummary(desc, n, sum, nil, values...))
}

// sendFunc returns a function that sends a metric. If the metric cannot be created, for
// example because a label is not valid UTF-8, the function sends an invalid metric.
func (s metricSender) sendFunc(desc *prometheus.Desc) func(prometheus.Metric, error) {
	return func(m prometheus.Metric, err error) {
		if err != nil {
			m = prometheus.NewInvalidMetric(desc, err)
		}
		s.to <- m
	}
}

func newDesc(name, help string, labels []string) (*prometheus.Desc, []string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	return prometheus.NewDesc(name, help, names, nil), values
}
