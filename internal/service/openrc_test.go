// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// newTestOpenRC returns an OpenRC with a temporary root directory and a script as rc-service. The tests'
// files in /run/openrc are like those of version 0.45.2.
func newTestOpenRC(t *testing.T, script string) OpenRC {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("OpenRC's processes are looked for in /proc, which is Linux'")
	}
	root := t.TempDir()
	must.Do(t, os.Symlink("/proc", filepath.Join(root, "proc")))
	return OpenRC{Root: root, Command: writeScript(t, script)}
}

// writeFile writes a file below o's root directory.
func (o OpenRC) writeFile(t *testing.T, path, content string) {
	t.Helper()
	name := o.rootPath(path)
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(t, os.WriteFile(name, []byte(content), 0o600))
}

func TestOpenRCState(t *testing.T) {
	sleeper := exec.Command("sleep", "1000")
	must.Do(t, sleeper.Start())
	pid := sleeper.Process.Pid
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	const gone = "4194304" // above the largest id that Linux gives
	for name, tt := range map[string]struct {
		says  string
		files map[string]string
		want  string
		pid   int
	}{
		"plain":              {"started", map[string]string{"/run/kubelet.pid": fmt.Sprintln(pid)}, "active (running)", pid},
		"another pidfile":    {"started", map[string]string{"/run/openrc/options/kubelet/pidfile": "/run/k.pid\n", "/run/k.pid": fmt.Sprint(pid)}, "active (running)", pid},
		"supervised":         {"started", map[string]string{"/run/kubelet.pid": "1", "/run/openrc/options/kubelet/child_pid": fmt.Sprint(pid)}, "active (running)", pid},
		"between two starts": {"started", map[string]string{"/run/openrc/options/kubelet/child_pid": gone}, "activating (auto-restart)", 0},
		"ended":              {"started", map[string]string{"/run/kubelet.pid": gone}, "failed (failed)", 0},
		"crashed":            {"crashed", map[string]string{"/run/kubelet.pid": gone}, "failed (failed)", 0},
		"no word of it":      {"started", nil, "failed (failed)", 0},
		"half a file":        {"started", map[string]string{"/run/kubelet.pid": ""}, "failed (failed)", 0},
		"stopped":            {"stopped", nil, "inactive (dead)", 0},
		"stopping":           {"stopping", nil, "deactivating (stop)", 0},
		"starting":           {"starting", nil, "activating (starting)", 0},
		"with more":          {"started 00:00:01 (2)", map[string]string{"/run/kubelet.pid": fmt.Sprint(pid)}, "active (running)", pid},
	} {
		t.Run(name, func(t *testing.T) {
			o := newTestOpenRC(t, `[ "$*" = "kubelet status" ] || exit 9; echo " * status: `+tt.says+`"; exit 3`)
			for path, content := range tt.files {
				o.writeFile(t, path, content)
			}
			s, err := Service{Manager: o, Name: "kubelet"}.State(t.Context())
			if err != nil || !strings.HasPrefix(s.String(), tt.want) || s.MainPID != tt.pid {
				t.Errorf("got %s, %v", s, err)
			}
			if tt.pid != 0 && (s.Invocation == "" || time.Since(s.Started).Abs() > time.Hour) {
				t.Errorf("got %+v", s)
			}
		})
	}
	for script, want := range map[string]string{
		"echo 'rc-service: superuser access required' >&2; exit 1": "exit status 1: rc-service: superuser access required",
		"echo huh": "printed no status",
	} {
		_, err := Service{Manager: newTestOpenRC(t, script), Name: "kubelet"}.State(t.Context())
		checkError(t, err, want, "")
	}
	absent := newTestOpenRC(t, "echo ' * rc-service: service `kubelet'\"' does not exist\" >&2; exit 1")
	s, err := absent.State(t.Context(), "kubelet")
	if err != nil || s.CheckUsable("kubelet") == nil {
		t.Errorf("got %s, %v", s, err)
	}
	if err := absent.Reload(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOpenRCRestart verifies that Restart resets a crashed service, and that a restart completes
// after its context is canceled.
func TestOpenRCRestart(t *testing.T) {
	o := newTestOpenRC(t, `[ "$2" = status ] && exit 9; [ "$*" = "kubelet restart" ] || exit 9; echo " * Starting kubelet ..."; echo " * ERROR: kubelet failed to start"; exit 1`)
	checkError(t, Service{Manager: o, Name: "kubelet"}.Restart(t.Context()), "restart kubelet: "+o.Command+": exit status 1:  * ERROR: kubelet failed to start", "")
	checkError(t, Service{Manager: OpenRC{Command: "/absent/rc-service"}, Name: "kubelet"}.Restart(t.Context()), "no such file", "")

	zapped := filepath.Join(t.TempDir(), "zapped")
	crashed := newTestOpenRC(t, fmt.Sprintf(`case $2 in status) echo " * status: crashed" ;; zap) : >%s ;; restart) [ -e %[1]s ] ;; esac`, zapped))
	if err := (Service{Manager: crashed, Name: "kubelet"}).Restart(t.Context()); err != nil {
		t.Error(err)
	}

	dir := t.TempDir()
	begun, goOn, done := filepath.Join(dir, "begun"), filepath.Join(dir, "goOn"), filepath.Join(dir, "done")
	slow := newTestOpenRC(t, fmt.Sprintf(`[ $2 = restart ] || exit 1; echo $$ >%s.new; mv %[1]s.new %[1]s; until [ -e %s ]; do sleep 0.01; done; head -c 100000 /dev/zero && echo >%s`, begun, goOn, done))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for readWhenPresent(t, begun) == "" {
		}
		cancel()
	}()
	err := Service{Manager: slow, Name: "kubelet"}.Restart(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	checkError(t, err, "is still running (process "+strings.TrimSpace(readWhenPresent(t, begun))+")", "kubelet status")
	must.Do(t, os.WriteFile(goOn, nil, 0o600))
	readWhenPresent(t, done)
}

// readWhenPresent reads a file as soon as it exists.
func readWhenPresent(t *testing.T, name string) string {
	for {
		data, err := os.ReadFile(name)
		if err == nil || t.Context().Err() != nil {
			return string(data)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestOpenRCLog(t *testing.T) {
	o := newTestOpenRC(t, "")
	at := time.Date(2026, 11, 23, 10, 0, 0, 0, time.Local)
	line := func(n int) string { return "I1123 10:00:00.00000" + strconv.Itoa(n) + "  1 x.go:1] x\n" }
	o.writeFile(t, "/var/log/kubelet.log", line(1))
	o.writeFile(t, "/var/log/kubelet-error.log", "E1122 10:00:00.000000  1 x.go:1] old\n")
	o.writeFile(t, "/var/log/kubelet/kubelet.log", line(2)+unknownFlagLine)
	o.writeFile(t, "/var/log/other.log", line(3))
	got, err := Service{Manager: o, Name: "kubelet"}.Log(t.Context(), at)
	want := []string{strings.TrimSpace(unknownFlagLine), strings.TrimSpace(line(1)), strings.TrimSpace(line(2))}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}
