// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// writeScript creates a shell script that replaces journalctl or another program, and returns
// its path.
func writeScript(t *testing.T, script string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "journalctl")
	must.Do(t, os.WriteFile(name, []byte("#!/bin/sh\n"+script), 0o755))
	return name
}

const (
	startLine       = "I1123 00:00:00.000001       1 server.go:1] \"Starting\"\n"
	unknownFlagLine = "E1123 00:00:00.000002       1 run.go:72] \"command failed\" err=\"failed to parse kubelet flag: unknown flag: --x\"\n"
	exitLine        = "I1123 00:00:00.000003       1 server.go:1] \"bye\"\n"
)

var quickCriteria = HealthCriteria{MinHealthy: 5 * time.Millisecond, Timeout: time.Minute, Restarts: 3}

// waitFor calls WaitHealthy for a unit that ran as process 7 before. look returns the unit's state
// at each poll.
func waitFor(t *testing.T, want HealthCriteria, look func(int) map[string]any) (State, *UnhealthyError) {
	t.Helper()
	f := &fakeSystemd{unitProperties: look}
	s := f.startService(t)
	m := s.Manager.(Systemd)
	m.Journalctl = writeScript(t, "cat <<'EOF'\n"+exitLine+unknownFlagLine+startLine+"EOF\n")
	s.Manager = m
	before := must.Get((&fakeSystemd{unitProperties: constantState(runningUnit(7))}).startService(t).State(t.Context()))(t)
	state, err := s.WaitHealthy(t.Context(), before, want)
	unhealthy, _ := errors.AsType[*UnhealthyError](err)
	if (err == nil) != (unhealthy == nil) {
		t.Fatalf("got %v", err)
	}
	return state, unhealthy
}

// TestWaitHealthy verifies that a unit is healthy if a new process responds and keeps responding.
func TestWaitHealthy(t *testing.T) {
	dead := runningUnit(7, "MainPID", uint32(0), "ActiveState", "activating", "SubState", "auto-restart")
	for name, look := range map[string]func(int) map[string]any{
		"at once":              constantState(runningUnit(8)),
		"the old one first":    stateSequence(runningUnit(7), runningUnit(7), runningUnit(8)),
		"none between":         stateSequence(runningUnit(7), dead, runningUnit(8)),
		"stopped by a job":     stateSequence(runningUnit(7, "ActiveState", "inactive", "SubState", "dead", "MainPID", uint32(0), "Job", job{jobID, "/x"}), runningUnit(8)),
		"two attempts":         stateSequence(dead, runningUnit(8), dead, runningUnit(9, "NRestarts", uint32(1))),
		"newer systemd, both":  stateSequence(runningUnit(7, "MainPID", uint32(0), "ActiveState", "failed", "SubState", "failed-before-auto-restart"), runningUnit(9, "NRestarts", uint32(1))),
		"notifies later":       stateSequence(runningUnit(9, "ActiveState", "activating", "SubState", "start"), runningUnit(9, "ActiveState", "activating", "SubState", "start"), runningUnit(9)),
		"the same process id":  stateSequence(runningUnit(7, "InvocationID", []byte{1})),
		"an id without its id": stateSequence(runningUnit(7, "ExecMainStartTimestamp", uint64(1_790_000_001_000_000))),
	} {
		t.Run(name, func(t *testing.T) {
			want := quickCriteria
			want.Health = startServer(t, "127.0.0.1:0", statusHandler(http.StatusOK))
			state, err := waitFor(t, want, look)
			if err != nil || state.MainPID == 0 || !state.IsRunning() {
				t.Errorf("got %s, %v", state, err)
			}
			want.Health = "" // healthzPort 0
			if state, err := waitFor(t, want, look); err != nil || state.MainPID == 0 || !state.IsRunning() {
				t.Errorf("not asked: got %s, %v", state, err)
			}
		})
	}
}

// TestWaitHealthyFlaps verifies that a failed health check restarts the time for which the kubelet
// must stay healthy.
func TestWaitHealthyFlaps(t *testing.T) {
	var asked atomic.Int64
	want := HealthCriteria{Timeout: time.Minute, MinHealthy: 3 * time.Millisecond}
	want.Health = startServer(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := asked.Add(1); n <= 20 && n%2 == 1 { // 500, 200, 500, …
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	if _, err := waitFor(t, want, constantState(runningUnit(8))); err != nil || asked.Load() < 21 {
		t.Errorf("%v after %d answers", err, asked.Load())
	}
	asked.Store(0)
	// A unit that has another process at each poll is not healthy.
	want.Timeout = 100 * time.Millisecond
	_, err := waitFor(t, want, func(n int) map[string]any { return runningUnit(8 + n) })
	if err == nil {
		t.Error("a process that was seen once counts as healthy")
	}
}

// TestWaitUnhealthy verifies that the wait ends early if further waiting is useless,
// and reports the last state.
func TestWaitUnhealthy(t *testing.T) {
	const tail = `; its log: E1123 00:00:00.000002       1 run.go:72] "command failed" err="failed to parse kubelet flag: unknown flag: --x"`
	healthy := startServer(t, "127.0.0.1:0", statusHandler(http.StatusOK))
	ill := startServer(t, "127.0.0.1:0", statusHandler(http.StatusInternalServerError))
	silent := startServer(t, "127.0.0.1:0", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	ended := []any{"MainPID", uint32(0), "ActiveState", "inactive", "SubState", "dead"}
	loop := []any{"MainPID", uint32(0), "ActiveState", "activating", "SubState", "auto-restart", "ExecMainStatus", int32(1), "Result", "exit-code"}
	soon := 2 * time.Second // enough for one read on a busy machine
	for name, tt := range map[string]struct {
		health string
		within time.Duration
		look   func(int) map[string]any
		want   string // %s: the elapsed time
	}{
		"failed": {healthy, 0, stateSequence(runningUnit(7), runningUnit(8, "MainPID", uint32(0), "ActiveState", "failed", "SubState", "failed", "Result", "start-limit-hit")),
			"it exited and was not restarted; the unit is failed (failed), start-limit-hit" + tail},
		"ended well": {healthy, 0, stateSequence(runningUnit(8), runningUnit(8, ended...)), "it exited and was not restarted; the unit is inactive (dead)" + tail},
		"dependency": {healthy, 0, constantState(runningUnit(7, append(ended, "ConditionResult", false, "ConditionTimestamp", uint64(0))...)), "s: it was not started; the unit is inactive (dead)"},
		"condition":  {healthy, 0, constantState(runningUnit(7, append(ended, "ConditionResult", false)...)), "a Condition in the unit is not met, so the unit was not started; the unit is inactive (dead)"},
		"again and again": {healthy, 0, func(n int) map[string]any { return runningUnit(8, append(loop, "NRestarts", uint32(n))...) },
			"it keeps exiting: restarted 3 times; the unit is activating (auto-restart), exit-code, exit code 1" + tail},
		"again and again, uncounted": {healthy, 0, func(n int) map[string]any {
			return map[string]any{"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "MainPID": uint32(8 + n), "ExecMainStartTimestamp": uint64(1_790_000_001_000_000 + n)}
		}, "it keeps exiting: restarted 3 times; the unit is active (running), process 11" + tail},
		"bad unit": {healthy, 0, constantState(runningUnit(7, "LoadState", "bad-setting")), "s: its unit file or a drop-in is invalid (bad-setting); the unit is "},
		"the old one stays": {healthy, soon, constantState(runningUnit(7)),
			"timed out; last: the old process 7 is still running; the unit is active (running), process 7"},
		"no answer":     {silent, soon, constantState(runningUnit(8)), "timed out; last: " + silent + ": no response: timed out; the unit is active (running), process 8" + tail},
		"ill":           {ill, soon, constantState(runningUnit(8)), "last: " + ill + ": HTTP status 500; the unit is active (running), process 8" + tail},
		"not listening": {"http://127.0.0.1:1/healthz", soon, constantState(runningUnit(8)), "last: http://127.0.0.1:1/healthz: connection refused; the unit is active"},
		"no READY": {healthy, soon, constantState(runningUnit(8, "ActiveState", "activating", "SubState", "start")),
			"last: the unit is activating (start), process 8; the unit is activating (start), process 8" + tail},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := quickCriteria
			want.Health, want.Timeout = tt.health, max(tt.within, 0)
			if want.Timeout == 0 {
				want.Timeout = time.Minute
			}
			_, err := waitFor(t, want, tt.look)
			if err == nil || !strings.HasPrefix(err.Error(), "kubelet.service: no healthy new kubelet after ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(tt.want, tail) && (len(err.Lines) != 3 || !strings.Contains(err.Lines[2], "bye")) {
				t.Errorf("lines: %q", err.Lines)
			}
			if early := tt.within == 0; err != nil && errors.Is(err, context.DeadlineExceeded) == early {
				t.Errorf("early: %v: %v", early, err)
			}
		})
	}
}

// TestWaitInterrupted verifies that a canceled context ends the wait immediately, and that the
// error differs from the error for a kubelet that does not start.
func TestWaitInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakeSystemd{unitProperties: func(n int) map[string]any {
		if n == 3 {
			cancel()
		}
		return runningUnit(7)
	}}
	_, err := f.startService(t).WaitHealthy(ctx, State{MainPID: 7, Invocation: "ab07", Started: time.UnixMicro(1_790_000_000_000_007)}, quickCriteria)
	if !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestWaitUnanswered verifies that WaitHealthy continues to poll if the service manager does not
// reply for a while.
func TestWaitUnanswered(t *testing.T) {
	f := &fakeSystemd{}
	f.unitProperties = func(n int) map[string]any {
		if n < 3 {
			f.closeConnections()
		}
		return runningUnit(8)
	}
	if _, err := f.startService(t).WaitHealthy(t.Context(), State{}, quickCriteria); err != nil {
		t.Error(err)
	}
}
