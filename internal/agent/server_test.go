// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/must"
)

const statusWithCounts = `{"schemaVersion":1,"node":{"kind":"kubeadm"},"current":7,"owner":"ns/rel","generations":[],"problems":["a","b"],"restart":["c"],
"counts":{"schemaVersion":1,"since":"2026-01-02T12:00:00Z","runs":{"answered":2},"providers":{"ecr":{"results":{"credentials":2},"runs":2,"seconds":1.5,"lastRun":"2026-01-02T12:00:00Z"}}}}`

// TestMetrics verifies the metrics of a drifted node, read over HTTP.
func TestMetrics(t *testing.T) {
	exitCodes[statusWithCounts] = 1
	p := newPod(t, commandResponses{"install": {strings.Replace(installed, `"generation":1`, `"generation":7`, 1)}, "status": {statusWithCounts}})
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	metrics := must.Get(p.Metrics("v1.2.3"))(t)
	got, want := []string{}, []string{
		"regcred_dispatcher_counted_since_timestamp_seconds 1.7673552e+09",
		"regcred_dispatcher_left_out_credentials_total 0",
		`regcred_dispatcher_runs_total{result="answered"} 2`,
		"regcred_dispatcher_uncounted_runs_total 0",
		"regcred_node_applies_total 1",
		"regcred_node_apply_failures_total 1",
		"regcred_node_drift 3",
		"regcred_node_generation 7",
		"regcred_node_last_apply_timestamp_seconds 9.466848e+08",
		"regcred_node_mended_total 0",
		`regcred_node_phase{phase="applying"} 0`,
		`regcred_node_phase{phase="drifted"} 1`,
		`regcred_node_phase{phase="failed"} 0`,
		`regcred_node_phase{phase="installed"} 0`,
		`regcred_node_phase{phase="not-removed"} 0`,
		`regcred_node_phase{phase="planned"} 0`,
		`regcred_node_phase{phase="removed"} 0`,
		`regcred_node_phase{phase="starting"} 0`,
		`regcred_node_phase{phase="unsupported"} 0`,
		`regcred_provider_last_run_timestamp_seconds{provider="ecr"} 1.7673552e+09`,
		`regcred_provider_run_duration_seconds_sum{provider="ecr"} 1.5`,
		`regcred_provider_run_duration_seconds_count{provider="ecr"} 2`,
		`regcred_provider_runs_total{provider="ecr",result="credentials"} 2`,
	}
	url := startAgent(t, p.Agent, metrics)
	status, text := httpGet(t, http.MethodGet, url+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, text)
	}
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, `regcred_build_info{goversion="go1.`) && strings.HasSuffix(line, `,version="v1.2.3"} 1`+"\n"):
		default:
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("promtool would say %v, %v", problems, err)
	}
}

// startAgent starts an agent's server and returns its address.
func startAgent(t *testing.T, a *agent.Agent, metrics *prometheus.Registry) (url string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, l, metrics) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ended: %v", err)
		}
	})
	return "http://" + l.Addr().String()
}

func httpGet(t *testing.T, method, url string) (status int, text string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
	resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
	defer resp.Body.Close()
	data := must.Get(io.ReadAll(io.LimitReader(resp.Body, 1<<20)))(t)
	return resp.StatusCode, string(data)
}

// TestServer verifies that the server serves only /metrics and /healthz.
func TestServer(t *testing.T) {
	p := newPod(t, commandResponses{"install": {installed}, "status": {clean}})
	metrics := must.Get(p.Metrics("v1.2.3"))(t)
	url := startAgent(t, p.Agent, metrics)
	if status, text := httpGet(t, http.MethodGet, url+"/healthz"); status != http.StatusServiceUnavailable {
		t.Errorf("before it runs: %d, %q", status, text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done, looked := make(chan error, 1), make(chan struct{})
	p.PrintStatus = func(line []byte) error {
		if strings.Contains(string(line), `"installed"`) {
			close(looked) // printed once
		}
		return nil
	}
	go func() { done <- p.Run(ctx) }()
	<-looked
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/healthz", http.StatusOK},
		{http.MethodHead, "/healthz", http.StatusOK},
		{http.MethodHead, "/metrics", http.StatusOK},
		{http.MethodPost, "/metrics", http.StatusMethodNotAllowed},
		{http.MethodPut, "/healthz", http.StatusMethodNotAllowed},
		{http.MethodGet, "/", http.StatusNotFound},
		{http.MethodGet, "/metrics/", http.StatusNotFound},
		{http.MethodGet, "/debug/pprof/", http.StatusNotFound},
	} {
		if status, text := httpGet(t, tt.method, url+tt.path); status != tt.status {
			t.Errorf("%s %s: %d, want %d: %s", tt.method, tt.path, status, tt.status, text)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/healthz", nil))(t)
	req.Header.Set("X", strings.Repeat("x", 64<<10))
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("64 KiB of headers: %d", resp.StatusCode)
		}
	}
}
