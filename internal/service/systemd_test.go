// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

const deniedMessage = "org.freedesktop.DBus.Error.AccessDenied"

// TestFaults verifies that each call returns an error with a cause and a hint, however the
// connection to systemd fails.
func TestFaults(t *testing.T) {
	restart := func(ctx context.Context, s Service) error { return s.Restart(ctx) }
	reload := func(ctx context.Context, s Service) error { return s.Reload(ctx) }
	state := func(ctx context.Context, s Service) error { _, err := s.State(ctx); return err }
	for name, tt := range map[string]struct {
		at         string
		fault      fault
		do         func(context.Context, Service) error
		want, hint string
	}{
		"ends at once":       {"AUTH", fault{}, state, "get the state of kubelet.service: cannot reach systemd at ", ""},
		"no D-Bus":           {"AUTH", fault{raw: "HTTP/1.1 400 Bad Request\r\n\r\n"}, state, "cannot reach systemd at ", ""},
		"garbage":            {"GetAll", fault{raw: strings.Repeat("\xff", 4096)}, state, "get the state of kubelet.service: systemd closed the connection", ""},
		"an immense message": {"GetAll", fault{raw: "l\x02\x01\x01\xff\xff\xff\x07\x01\x00\x00\x00\xff\xff\xff\x07"}, state, "systemd closed the connection", ""},
		"ends in the middle": {"RestartUnit", fault{}, restart, "restart kubelet.service: systemd closed the connection", ""},
		"AppArmor": {"GetAll", fault{name: deniedMessage, text: "An AppArmor policy prevents this sender from sending this message"}, state,
			"get the state of kubelet.service: An AppArmor policy prevents this sender from sending this message (AccessDenied)", "AppArmor profile blocks"},
		"SELinux": {"GetAll", fault{name: deniedMessage, text: "SELinux policy denies access"}, state, "SELinux policy denies access (AccessDenied)", "spc_t"},
		"polkit": {"RestartUnit", fault{name: "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", text: "Interactive authentication required."}, restart,
			"restart kubelet.service: Interactive authentication required. (InteractiveAuthorizationRequired)", rootHint()},
		"no unit":       {"RestartUnit", fault{name: "org.freedesktop.systemd1.NoSuchUnit", text: "Unit kubelet.service not found."}, restart, "not found. (NoSuchUnit)", "systemctl cat"},
		"bad unit":      {"RestartUnit", fault{name: "org.freedesktop.systemd1.BadUnitSetting", text: "bad"}, restart, "bad (BadUnitSetting)", "systemctl cat"},
		"shutdown":      {"RestartUnit", fault{name: "org.freedesktop.systemd1.TransactionIsDestructive", text: "x"}, restart, "(TransactionIsDestructive)", "shutting down"},
		"no reply":      {"Reload", fault{name: "org.freedesktop.DBus.Error.NoReply", text: "x"}, reload, "reload units: x (NoReply)", "is-system-running"},
		"rate limit":    {"Reload", fault{name: "org.freedesktop.DBus.Error.LimitsExceeded", text: "too often"}, reload, "reload units: too often (LimitsExceeded)", ""},
		"words for us":  {"Reload", fault{name: "x.Y", text: "\x1b[2Jerror: all is well\n"}, reload, `reload units: \x1b[2Jerror: all is well\n (Y)`, ""},
		"a long text":   {"Reload", fault{name: "x.Y", text: strings.Repeat("long ", 1000)}, reload, "long lo… (Y)", ""},
		"cannot forget": {"ResetFailedUnit", fault{name: deniedMessage}, restart, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeSystemd{faults: map[string]fault{tt.at: tt.fault}, unitProperties: constantState(runningUnit(7)), finishJob: jobResult("done")}
			checkError(t, tt.do(t.Context(), f.startService(t)), tt.want, tt.hint)
		})
	}
}

// checkError compares an error's text and hint with expected parts; "" means none.
func checkError(t *testing.T, err error, want, hint string) {
	t.Helper()
	if err == nil && want == "" {
		return
	}
	if err == nil || want == "" || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
		return
	}
	if strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 2000 {
		t.Errorf("not fit to be shown: %q", err)
	}
	e, ok := errors.AsType[*Error](err)
	if ok != (hint != "") || ok && !strings.Contains(e.Hint, hint) {
		t.Errorf("%v: hint %+v, want %q", err, e, hint)
	}
}

// TestNoReply verifies that canceling the context ends a call to which systemd does not reply.
func TestNoReply(t *testing.T) {
	for _, at := range []string{"AUTH", "AddMatch", "GetAll", "Reload", "ResetFailedUnit", "RestartUnit"} {
		for _, cause := range []error{context.DeadlineExceeded, context.Canceled} {
			f := &fakeSystemd{faults: map[string]fault{at: {noReply: true}}, unitProperties: constantState(runningUnit(7))}
			s := f.startService(t)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if cause == context.Canceled {
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(20*time.Millisecond, cancel)
			}
			err := map[string]func(context.Context) error{"Reload": s.Reload, "ResetFailedUnit": s.Restart, "RestartUnit": s.Restart}[at]
			var got error
			if err != nil {
				got = err(ctx)
			} else {
				_, got = s.State(ctx)
			}
			if !errors.Is(got, cause) {
				t.Errorf("%s: %v, want %v", at, got, cause)
			}
			checkError(t, got, "systemd did not respond: ", "is-system-running")
			cancel()
		}
	}
}

func TestNoSocket(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	s := Service{Manager: Systemd{PrivateSocket: absent, BusSocket: absent + "2"}, Name: "kubelet.service"}
	want := "restart kubelet.service: cannot reach systemd at " + absent + " (no such file or directory) or at " + absent + "2 (no such file or directory)"
	checkError(t, s.Restart(t.Context()), want, "")
	if os.Geteuid() == 0 {
		return // root can connect to any socket
	}
	file := filepath.Join(t.TempDir(), "socket")
	must.Do(t, os.WriteFile(file, nil, 0))
	checkError(t, Service{Manager: Systemd{PrivateSocket: file, BusSocket: file}}.Restart(t.Context()), "permission denied", "as root")
}

// TestSystemBus verifies that the system bus, which needs a Hello call, is used if systemd's private socket is missing.
func TestSystemBus(t *testing.T) {
	f := &fakeSystemd{unitProperties: constantState(runningUnit(7))}
	m := f.startServer(t)
	m.PrivateSocket, m.BusSocket = m.BusSocket, m.PrivateSocket
	state, err := m.State(t.Context(), "kubelet.service")
	if err != nil || state.MainPID != 7 || !f.wasCalled("Hello") {
		t.Errorf("got %+v, %v", state, err)
	}
}

func TestState(t *testing.T) {
	begun := time.UnixMicro(1_790_000_000_000_007)
	for name, tt := range map[string]struct {
		properties map[string]any
		want       State
		text       string
	}{
		"runs": {runningUnit(7, "Job", job{jobID, "/x"}), State{
			Load: "loaded", Active: "active", Sub: "running", MainPID: 7, Invocation: "ab07", Started: begun, Result: "success", Job: jobID,
		}, "active (running), process 7"},
		"ended": {runningUnit(7, "MainPID", uint32(0), "ActiveState", "activating", "SubState", "auto-restart", "ExecMainStatus", int32(1), "ExecMainCode", int32(1), "Result", "exit-code", "NRestarts", uint32(3)), State{
			Load: "loaded", Active: "activating", Sub: "auto-restart", Invocation: "ab07", Started: begun, Result: "exit-code", ExitKind: 1, ExitStatus: 1, Restarts: 3,
		}, "activating (auto-restart), exit-code, exit code 1"},
		"killed": {runningUnit(7, "MainPID", uint32(0), "ActiveState", "failed", "SubState", "failed", "ExecMainStatus", int32(9), "ExecMainCode", int32(2), "Result", "signal"), State{
			Load: "loaded", Active: "failed", Sub: "failed", Invocation: "ab07", Started: begun, Result: "signal", ExitKind: 2, ExitStatus: 9,
		}, "failed (failed), signal, ended by signal 9"},
		"old": {map[string]any{"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "MainPID": uint32(7), "ExecMainStartTimestamp": uint64(1_790_000_000_000_007)}, State{
			Load: "loaded", Active: "active", Sub: "running", MainPID: 7, Started: begun,
		}, "active (running), process 7"},
		"other types": {map[string]any{"LoadState": "loaded", "ActiveState": "\x1b[2J", "SubState": uint32(3), "MainPID": "7", "Job": "none", "InvocationID": "x", "ExecMainStartTimestamp": uint64(1 << 63)}, State{
			Load: "loaded", Active: "\x1b[2J",
		}, `\x1b[2J ()`},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeSystemd{unitProperties: constantState(tt.properties)}
			got, err := f.startService(t).State(t.Context())
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if got.String() != tt.text {
				t.Errorf("got %s, want %s", got, tt.text)
			}
		})
	}
	f := &fakeSystemd{unitProperties: constantState(map[string]any{"LoadState": uint32(1)})}
	_, err := f.startService(t).State(t.Context())
	checkError(t, err, "get the state of kubelet.service: systemd's response has no LoadState or ActiveState", "")
}

// TestReload verifies that Reload fails if systemd cannot load the unit, although systemd reports
// success.
func TestReload(t *testing.T) {
	loadError := struct{ Name, Text string }{"org.freedesktop.systemd1.BadUnitSetting", "Unit has a bad unit file setting.\n"}
	for load, want := range map[string][2]string{
		"loaded":      {"", ""},
		"bad-setting": {`kubelet.service: its unit file or a drop-in is invalid: Unit has a bad unit file setting.\n (bad-setting)`, "systemd-analyze verify kubelet.service"},
		"not-found":   {"kubelet.service: no such unit: ", "systemctl status"},
		"masked":      {"kubelet.service: the unit is masked: ", "systemctl unmask kubelet.service"},
	} {
		f := &fakeSystemd{unitProperties: constantState(runningUnit(7, "LoadState", load, "LoadError", loadError))}
		checkError(t, f.startService(t).Reload(t.Context()), want[0], want[1])
		if !f.wasCalled("Reload") {
			t.Error("systemd got no request to")
		}
	}
}

// TestRestart verifies that Restart returns the result of its job, and that it first resets
// systemd's start counter.
func TestRestart(t *testing.T) {
	gone := constantState(runningUnit(8))
	for name, tt := range map[string]struct {
		job        func(*fakeSystemd, *dbus.Message)
		look       func(int) map[string]any
		want, hint string
	}{
		"done":                          {jobResult("done"), nil, "", ""},
		"failed":                        {jobResult("failed"), nil, `restart kubelet.service: its job ended with "failed": it did not start`, "systemctl status kubelet.service"},
		"timeout":                       {jobResult("timeout"), nil, `"timeout": the job took longer than the unit allows`, "systemctl status"},
		"dependency":                    {jobResult("dependency"), nil, `"dependency": a required unit`, "systemctl list-dependencies kubelet.service"},
		"canceled":                      {jobResult("canceled"), nil, `"canceled": another request`, "systemctl status"},
		"skipped":                       {jobResult("skipped"), nil, `"skipped": the request does not apply`, "systemctl status"},
		"a new word":                    {jobResult("\x1b[2J"), nil, `"\x1b[2J": unexpected result`, "systemctl status"},
		"no word of it, but it is gone": {nil, gone, "", ""},
		"systemd executes itself anew, and it is gone": {func(f *fakeSystemd, _ *dbus.Message) { f.closeConnections() }, gone, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some wait a second or two
			f := &fakeSystemd{finishJob: tt.job, unitProperties: tt.look}
			checkError(t, f.startService(t).Restart(t.Context()), tt.want, tt.hint)
			if !f.wasCalled("ResetFailedUnit") {
				t.Error("no ResetFailedUnit")
			}
		})
	}
}

// TestInterrupted verifies that the error of a canceled Restart reports that systemd is still
// working on the job.
func TestInterrupted(t *testing.T) {
	f := &fakeSystemd{unitProperties: constantState(runningUnit(7, "Job", job{jobID, "/x"}))}
	ctx, cancel := context.WithCancel(t.Context())
	f.finishJob = func(*fakeSystemd, *dbus.Message) { time.AfterFunc(10*time.Millisecond, cancel) }
	err := f.startService(t).Restart(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	checkError(t, err, "restart kubelet.service: context canceled; systemd is still working on job 42", "systemctl list-jobs")
}

func TestDetect(t *testing.T) {
	for dir, want := range map[string]Manager{"run/systemd/system": Systemd{}, "run/openrc": OpenRC{}, "run/runit": nil} {
		root := t.TempDir()
		must.Do(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		got, err := detectManager(root)
		if got != want || (err == nil) != (want != nil) {
			t.Errorf("%s: got %v, %v", dir, got, err)
		}
		if want == nil {
			checkError(t, err, "neither systemd nor OpenRC is running", "by hand")
		}
	}
}
