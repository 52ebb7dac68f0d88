// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/regcred/regcred/internal/runstats"
	"github.com/regcred/regcred/internal/runstats/metrics"
)

// Metrics returns a registry with the metrics of the node and its dispatcher.
func (a *Agent) Metrics(version string) (*prometheus.Registry, error) {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "regcred_build_info", Help: "regcred version in this pod; the value is always 1.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	registry := prometheus.NewRegistry()
	counts := func() *runstats.Counts {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.counts
	}
	for _, c := range []prometheus.Collector{build, nodeMetrics(a.Status), metrics.Collector{Counts: counts}} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return registry, nil
}

// Status returns the node's state. It is safe for concurrent use.
func (a *Agent) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// nodeMetrics collects the metrics of a status.
type nodeMetrics func() Status

// Describe sends the descriptions of the metrics.
func (status nodeMetrics) Describe(to chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(status, to)
}

// Collect sends the metrics of the current status.
func (status nodeMetrics) Collect(to chan<- prometheus.Metric) {
	s := status()
	send := func(kind prometheus.ValueType, name, help string, labels prometheus.Labels, value float64) {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc("regcred_node_"+name, help, nil, labels), kind, value)
	}
	gauge := func(name, help string, value float64) { send(prometheus.GaugeValue, name, help, nil, value) }
	count := func(name, help string, n int) { send(prometheus.CounterValue, name, help, nil, float64(n)) }
	gauge("generation", "Current generation on the node, or 0 if there is none.", float64(s.Generation))
	for _, p := range []Phase{PhaseStarting, PhaseApplying, PhaseInstalled, PhasePlanned, PhaseDrifted, PhaseFailed, PhaseUnsupported, PhaseRemoved, PhaseNotRemoved} {
		v := 0.0
		if p == s.Phase {
			v = 1
		}
		send(prometheus.GaugeValue, "phase", "1 for the node's current phase, 0 for all other phases.", prometheus.Labels{"phase": string(p)}, v)
	}
	if !s.LastApply.IsZero() {
		gauge("last_apply_timestamp_seconds", "Time of the last change to the node since the pod was created.", float64(s.LastApply.Unix()))
	}
	count("applies_total", "Number of installs that changed the node since the pod was created.", s.Applies)
	count("apply_failures_total", "Number of failed installs and uninstalls since the pod was created.", s.Failures)
	count("mended_total", "Number of differences from the installed state that installs have repaired.", s.Repairs)
	gauge("drift", "Current number of differences between the node and the installed state.", float64(len(s.Drift)))
}

// Serve serves /metrics and /healthz until ctx ends. /healthz returns 200 as long as the
// agent checks its node regularly, regardless of the node's state.
func (a *Agent) Serve(ctx context.Context, l net.Listener, metrics *prometheus.Registry) error {
	server := &http.Server{
		Handler:           a.newHandler(metrics),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // keep port scans out of the log
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// maxConcurrentScrapes limits concurrent requests for metrics.
const maxConcurrentScrapes = 4

func (a *Agent) newHandler(metrics *prometheus.Registry) http.Handler {
	scrape := promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: maxConcurrentScrapes, Timeout: 5 * time.Second})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrape) // and HEAD
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		a.mu.Lock()
		onTime := time.Now().Before(a.turnDeadline)
		a.mu.Unlock()
		if !onTime {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("the node is not being checked\n"))
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}
