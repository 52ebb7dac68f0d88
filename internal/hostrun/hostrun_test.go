// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/systemd"
)

// The tests in upstream/cluster run programs with a real systemd.

func TestLabelToSet(t *testing.T) {
	for _, tt := range []struct {
		name, now string
		selinux   bool
		want      string
	}{
		{"no SELinux", "", false, ""},
		{"a volume of a container", "system_u:object_r:container_file_t:s0:c12,c34", false, programLabel},
		{"of an image", "system_u:object_r:container_ro_file_t:s0", true, programLabel},
		{"a program already", "system_u:object_r:bin_t:s0", true, ""},
		{"a file system without labels", "", true, programLabel},
		{"no label", "x", false, programLabel},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := labelToSet(tt.now, tt.selinux); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestExecutable verifies that SetExecutableLabel does nothing on a machine without SELinux.
func TestExecutable(t *testing.T) {
	if _, err := os.Stat("/sys/fs/selinux/enforce"); err == nil {
		t.Skip("this machine has SELinux")
	}
	file := t.TempDir() + "/program"
	must.Do(t, os.WriteFile(file, nil, 0o755))
	if err := SetExecutableLabel(file); err != nil {
		t.Error(err)
	}
}

func TestExit(t *testing.T) {
	c := Command{Path: "/program", Timeout: time.Minute}
	for _, tt := range []struct {
		state unitState
		code  int
		says  string
	}{
		{unitState{systemd.Unit{ExitKind: 1, Result: "success"}}, 0, ""},
		{unitState{systemd.Unit{ExitKind: 1, ExitStatus: 3, Result: "success"}}, 3, ""},
		{unitState{systemd.Unit{ExitKind: 1, ExitStatus: 199, Result: "success"}}, 199, ""},
		{unitState{systemd.Unit{ExitKind: 1, ExitStatus: 203, Result: "success"}}, 0, "the node cannot execute /program (203/EXEC): "},
		{unitState{systemd.Unit{ExitKind: 1, ExitStatus: 209, Result: "success"}}, 0, "could not start /program: exit code 209 (explained in systemd.exec(5))"},
		{unitState{systemd.Unit{ExitKind: 2, ExitStatus: 9, Result: "success"}}, 0, "/program was stopped: by signal 9 (killed)"},
		{unitState{systemd.Unit{ExitKind: 2, ExitStatus: 9, Result: "oom-kill"}}, 0, "/program was stopped: the node was out of memory"},
		{unitState{systemd.Unit{ExitKind: 1, ExitStatus: 1, Result: "timeout"}}, 0, "/program was stopped: it ran longer than 1m0s"},
		{unitState{systemd.Unit{Result: "resources"}}, 0, "did not start /program (resources)"},
	} {
		code, err := tt.state.exitCode(c)
		if code != tt.code || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: got %d, %v; want %d, %q", tt.state, code, err, tt.code, tt.says)
		}
	}
}

func TestForeignUnitFile(t *testing.T) {
	for transient, want := range map[bool]string{true: "", false: "/x.service"} {
		if got := (unitState{systemd.Unit{File: "/x.service", Transient: transient}}).foreignUnitFile(); got != want {
			t.Errorf("transient %v: got %q, want %q", transient, got, want)
		}
	}
}

func TestStates(t *testing.T) {
	for _, tt := range []struct {
		state       unitState
		gone, ended bool
	}{
		{unitState{systemd.Unit{Load: "not-found", Active: "inactive"}}, true, false},
		{unitState{systemd.Unit{Load: "loaded", Active: "inactive", Job: 7}}, false, false},
		{unitState{systemd.Unit{Load: "loaded", Active: "inactive"}}, true, false},
		{unitState{systemd.Unit{Load: "loaded", Active: "active", Sub: "running"}}, false, false},
		{unitState{systemd.Unit{Load: "loaded", Active: "active", Sub: "exited", Job: 7}}, false, false},
		{unitState{systemd.Unit{Load: "loaded", Active: "active", Sub: "exited"}}, false, true},
		{unitState{systemd.Unit{Load: "loaded", Active: "deactivating", Sub: "stop-sigterm"}}, false, false},
		{unitState{systemd.Unit{Load: "loaded", Active: "failed", Sub: "failed"}}, false, true},
	} {
		if tt.state.isGone() != tt.gone || tt.state.isEnded() != tt.ended {
			t.Errorf("%+v: gone %v, ended %v", tt.state, tt.state.isGone(), tt.state.isEnded())
		}
	}
}

func TestExplain(t *testing.T) {
	u := &unitRun{runner: Runner{Unit: "x.service"}, systemd: &systemd.Client{}}
	answer := func(name string) error { return dbus.Error{Name: name, Body: []any{"it says so"}} }
	for _, tt := range []struct {
		err  error
		says string
	}{
		{fmt.Errorf("x: %w", fs.ErrPermission), "no permission to use the node's systemd (x: permission denied)"},
		{answer("org.freedesktop.DBus.Error.AccessDenied"), "no permission to use the node's systemd (it says so)"},
		{answer("org.freedesktop.DBus.Error.PropertyReadOnly"), "too old to run a program on behalf of a pod: it says so"},
		{answer("org.freedesktop.DBus.Error.NoMemory"), "the node's systemd: it says so"},
		{systemd.ErrNoResponse, "the node's systemd at /run/systemd/private is busy or hung: "},
	} {
		if got := u.convertError(t.Context(), tt.err); !strings.Contains(got.Error(), tt.says) {
			t.Errorf("got %q, want %q", got, tt.says)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := u.convertError(ctx, fs.ErrPermission); !errors.Is(got, context.Canceled) || !strings.Contains(got.Error(), "if x.service was started") {
		t.Errorf("got %v", got)
	}
	for uid, says := range map[int]string{0: "although this process has uid 0: with SELinux, the pod needs seLinuxOptions.type: spc_t", 1000: "this process has uid 1000, but systemd accepts only uid 0"} {
		if got := (&PermissionError{uid, fs.ErrPermission}).Error(); !strings.Contains(got, says) {
			t.Errorf("got %q, want %q", got, says)
		}
	}
}

// TestNoSystemd verifies that Run returns a NotMountedError if the directory of the socket is not
// mounted.
func TestNoSystemd(t *testing.T) {
	dir := t.TempDir()
	_, err := Runner{Unit: "x.service", Socket: dir + "/private"}.Run(t.Context(), Command{Path: "/bin/true"}, nil, nil)
	if _, ok := errors.AsType[*NotMountedError](err); !ok || !strings.Contains(err.Error(), "hostPath volume with the path "+dir+" at the same path") {
		t.Errorf("got %T: %v", err, err)
	}
}

// TestNoSystemdReason verifies which error is returned if systemd does not respond.
func TestNoSystemdReason(t *testing.T) {
	const mounts = "21 1 0:20 / / rw - overlay overlay rw\n22 21 0:21 / /proc rw - proc proc rw\n"
	mounted := func(dir string) string {
		return mounts + "23 21 0:22 /systemd " + dir + " ro,nosuid shared:5 - tmpfs tmpfs rw\n"
	}
	for _, tt := range []struct {
		name   string
		mounts func(dir string) string
		have   []string // files in the directory of the socket
		want   string   // the error's type
		says   string
	}{
		{"not mounted", func(string) string { return mounts }, nil, "*hostrun.NotMountedError", "is not mounted into this pod"},
		{"mounted elsewhere", func(dir string) string { return mounted(dir + "/system") }, nil, "*hostrun.NotMountedError", "is not mounted into this pod"},
		{"of a node without systemd, made by the kubelet", mounted, nil, "*hostrun.NoSystemdError", "this node does not run systemd: "},
		{"of a node with elogind", mounted, []string{"seats", "sessions"}, "*hostrun.NoSystemdError", "this node does not run systemd: "},
		{"systemd without a socket", mounted, []string{"system"}, "*hostrun.NotRespondingError", "this node has systemd ("},
		{"a socket where nobody listens", mounted, []string{"private"}, "*hostrun.NotRespondingError", "does not respond at "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range tt.have {
				must.Do(t, os.Mkdir(dir+"/"+name, 0o700))
			}
			err := unavailableErrorFor(tt.mounts(dir), dir+"/private", fs.ErrNotExist)
			if got := fmt.Sprintf("%T", err); got != tt.want || !strings.Contains(err.Error(), tt.says) || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %s: %v", got, err)
			}
		})
	}
}
