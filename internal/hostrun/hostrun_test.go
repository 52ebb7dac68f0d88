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
)

// Programs are run by a real systemd in upstream/cluster.

func TestLabelFor(t *testing.T) {
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
			if got := labelFor(tt.now, tt.selinux); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestExecutable: where there is no SELinux nothing is done.
func TestExecutable(t *testing.T) {
	if _, err := os.Stat("/sys/fs/selinux/enforce"); err == nil {
		t.Skip("this machine has SELinux")
	}
	file := t.TempDir() + "/program"
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Executable(file); err != nil {
		t.Error(err)
	}
}

func TestExit(t *testing.T) {
	c := Command{Path: "/program", Limit: time.Minute}
	for _, tt := range []struct {
		state state
		code  int
		says  string
	}{
		{state{code: 1, result: "success"}, 0, ""},
		{state{code: 1, status: 3, result: "success"}, 3, ""},
		{state{code: 1, status: 199, result: "success"}, 199, ""},
		{state{code: 1, status: 203, result: "success"}, 0, "the node cannot execute /program (203/EXEC): "},
		{state{code: 1, status: 209, result: "success"}, 0, "could not start /program: exit code 209 (explained in systemd.exec(5))"},
		{state{code: 2, status: 9, result: "success"}, 0, "/program was stopped: by signal 9 (killed)"},
		{state{code: 2, status: 9, result: "oom-kill"}, 0, "/program was stopped: the node was out of memory"},
		{state{code: 1, status: 1, result: "timeout"}, 0, "/program was stopped: it ran longer than 1m0s"},
		{state{result: "resources"}, 0, "did not start /program (resources)"},
	} {
		code, err := tt.state.exit(c)
		if code != tt.code || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: got %d, %v; want %d, %q", tt.state, code, err, tt.code, tt.says)
		}
	}
}

// TestStateOf: an answer that lacks something, or has something else, is no harm.
func TestStateOf(t *testing.T) {
	if got := stateOf(nil); got != (state{}) {
		t.Errorf("of nothing: %+v", got)
	}
	got := stateOf(map[string]dbus.Variant{
		"LoadState": dbus.MakeVariant("loaded"), "ActiveState": dbus.MakeVariant(7), "ExecMainStatus": dbus.MakeVariant(int32(3)),
		"Job": dbus.MakeVariantWithSignature([]any{uint32(12), dbus.ObjectPath("/x")}, dbus.ParseSignatureMust("(uo)")),
	})
	if want := (state{load: "loaded", status: 3, job: 12}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for transient, want := range map[bool]string{true: "", false: "/x.service"} {
		s := stateOf(map[string]dbus.Variant{"FragmentPath": dbus.MakeVariant("/x.service"), "Transient": dbus.MakeVariant(transient)})
		if s.foreign() != want {
			t.Errorf("transient %v: of its own %q, want %q", transient, s.foreign(), want)
		}
	}
}

func TestStates(t *testing.T) {
	for _, tt := range []struct {
		state       state
		gone, ended bool
	}{
		{state{load: "not-found", active: "inactive"}, true, false},
		{state{load: "loaded", active: "inactive", job: 7}, false, false},
		{state{load: "loaded", active: "inactive"}, true, false},
		{state{load: "loaded", active: "active", sub: "running"}, false, false},
		{state{load: "loaded", active: "active", sub: "exited", job: 7}, false, false},
		{state{load: "loaded", active: "active", sub: "exited"}, false, true},
		{state{load: "loaded", active: "deactivating", sub: "stop-sigterm"}, false, false},
		{state{load: "loaded", active: "failed", sub: "failed"}, false, true},
	} {
		if tt.state.gone() != tt.gone || tt.state.ended() != tt.ended {
			t.Errorf("%+v: gone %v, ended %v", tt.state, tt.state.gone(), tt.state.ended())
		}
	}
}

func TestExplain(t *testing.T) {
	u := &unit{runner: Runner{Unit: "x.service"}, systemd: &systemd{}}
	answer := func(name string) error { return dbus.Error{Name: name, Body: []any{"it says so"}} }
	for _, tt := range []struct {
		err  error
		says string
	}{
		{fmt.Errorf("x: %w", fs.ErrPermission), "no permission to use the node's systemd (x: permission denied)"},
		{answer("org.freedesktop.DBus.Error.AccessDenied"), "no permission to use the node's systemd (it says so)"},
		{answer("org.freedesktop.DBus.Error.PropertyReadOnly"), "too old to run a program on behalf of a pod: it says so"},
		{answer("org.freedesktop.DBus.Error.NoMemory"), "the node's systemd: it says so"},
		{errNoAnswer, "the node's systemd at /run/systemd/private is busy or hung: "},
	} {
		if got := u.explain(t.Context(), tt.err); !strings.Contains(got.Error(), tt.says) {
			t.Errorf("got %q, want %q", got, tt.says)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := u.explain(ctx, fs.ErrPermission); !errors.Is(got, context.Canceled) || !strings.Contains(got.Error(), "if x.service was started") {
		t.Errorf("got %v", got)
	}
	for uid, says := range map[int]string{0: "although this process has uid 0: with SELinux, the pod needs seLinuxOptions.type: spc_t", 1000: "this process has uid 1000, but systemd accepts only uid 0"} {
		if got := (&DeniedError{uid, fs.ErrPermission}).Error(); !strings.Contains(got, says) {
			t.Errorf("got %q, want %q", got, says)
		}
	}
}

// TestNoSystemd: a pod that does not see the node's directory says so, and soon: that
// is nothing to be said of the node.
func TestNoSystemd(t *testing.T) {
	dir := t.TempDir()
	_, err := Runner{Unit: "x.service", Socket: dir + "/private"}.Run(t.Context(), Command{Path: "/bin/true"}, nil, nil)
	if _, ok := errors.AsType[*NotMountedError](err); !ok || !strings.Contains(err.Error(), "hostPath volume with the path "+dir+" at the same path") {
		t.Errorf("got %T: %v", err, err)
	}
}

// TestAbsence: what is missing where no systemd answers.
func TestAbsence(t *testing.T) {
	const mounts = "21 1 0:20 / / rw - overlay overlay rw\n22 21 0:21 / /proc rw - proc proc rw\n"
	mounted := func(dir string) string {
		return mounts + "23 21 0:22 /systemd " + dir + " ro,nosuid shared:5 - tmpfs tmpfs rw\n"
	}
	for _, tt := range []struct {
		name   string
		mounts func(dir string) string
		have   []string // in the directory
		want   string   // the error's type
		says   string
	}{
		{"not mounted", func(string) string { return mounts }, nil, "*hostrun.NotMountedError", "is not mounted into this pod"},
		{"mounted elsewhere", func(dir string) string { return mounted(dir + "/system") }, nil, "*hostrun.NotMountedError", "is not mounted into this pod"},
		{"of a node without systemd, made by the kubelet", mounted, nil, "*hostrun.NoSystemdError", "this node does not run systemd: "},
		{"of a node with elogind", mounted, []string{"seats", "sessions"}, "*hostrun.NoSystemdError", "this node does not run systemd: "},
		{"systemd without a socket", mounted, []string{"system"}, "*hostrun.NotAnsweringError", "this node has systemd ("},
		{"a socket where nobody listens", mounted, []string{"private"}, "*hostrun.NotAnsweringError", "does not respond at "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range tt.have {
				if err := os.Mkdir(dir+"/"+name, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			err := absentIn(tt.mounts(dir), dir+"/private", fs.ErrNotExist)
			if got := fmt.Sprintf("%T", err); got != tt.want || !strings.Contains(err.Error(), tt.says) || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %s: %v", got, err)
			}
		})
	}
}
