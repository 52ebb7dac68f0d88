// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/hostrun"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/upstream/node"
)

const (
	hostrunProgram = "/usr/local/bin/hostrun"
	hostrunUnit    = "regcred-agent.service"
	hostrunSocket  = "/mnt/systemd/private"
)

// podScript runs a program like a container: in its own namespaces, with the node's /run/systemd
// and an empty directory mounted, and as a user without capabilities.
const podScript = `mkdir -p /mnt && mount -t tmpfs tmpfs /mnt && mkdir /mnt/systemd /mnt/empty && mount --bind /run/systemd /mnt/systemd && mount -t tmpfs tmpfs /mnt/empty && mount -t tmpfs tmpfs /run &&
exec setpriv --reuid="$0" --clear-groups --bounding-set=-all --inh-caps=-all --ambient-caps=-all --no-new-privs "$@"`

// runResult is the output of command hostrun.
type runResult struct {
	Code        int
	Error, Type string
	Stderr      string
	Took        time.Duration
	Rights      map[string]string

	stdout string
}

// podRunner runs programs on a machine from a pod.
type podRunner struct{ machine *node.Machine }

// execCommand returns a command that runs c from a pod as user uid, with a timeout.
func (h podRunner) execCommand(ctx context.Context, uid, socket string, within time.Duration, c hostrun.Command) *exec.Cmd {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return h.machine.Command(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--ipc", "--uts", "--cgroup",
		"sh", "-c", podScript, uid, hostrunProgram, socket, hostrunUnit, within.String(), string(text))
}

func (h podRunner) runAsUser(ctx context.Context, uid, socket string, within time.Duration, c hostrun.Command) (r runResult, err error) {
	var stdout, stderr bytes.Buffer
	cmd := h.execCommand(ctx, uid, socket, within, c)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := errors.Join(cmd.Run(), json.Unmarshal(stderr.Bytes(), &r)); err != nil {
		return r, fmt.Errorf("%w: %s", err, stderr.String())
	}
	r.stdout = stdout.String()
	return r, nil
}

// runInPod runs a program as uid 0.
func (h podRunner) runInPod(t *testing.T, c hostrun.Command) runResult {
	t.Helper()
	r := must.Get(h.runAsUser(t.Context(), "0", hostrunSocket, time.Minute, c))(t)
	t.Logf("after %v: code %d %s", r.Took, r.Code, r.Error)
	return r
}

func shellCommand(script string) hostrun.Command {
	return hostrun.Command{Path: "/bin/sh", Args: []string{"-c", script}}
}

// startInPod runs c in the background and waits until c has created a file. end waits until c exits and
// returns its result.
func (h podRunner) startInPod(t *testing.T, c hostrun.Command, file string) (end func() runResult) {
	t.Helper()
	type answer struct {
		runResult
		err error
	}
	ended := make(chan answer, 1)
	go func() {
		r, err := h.runAsUser(t.Context(), "0", hostrunSocket, time.Minute, c)
		ended <- answer{r, err}
	}()
	h.waitForFile(t, file)
	return func() runResult {
		t.Helper()
		a := <-ended
		if a.err != nil {
			t.Fatal(a.err)
		}
		t.Logf("after %v: code %d %s", a.Took, a.Code, a.Error)
		return a.runResult
	}
}

func (h podRunner) waitForFile(t *testing.T, file string) {
	t.Helper()
	node.Eventually(t, time.Minute, func(ctx context.Context) error { return h.machine.Command(ctx, "test", "-e", file).Run() })
}

// waitingProgram returns a program that creates the file NAME-begun and then waits for the file
// NAME-go.
func waitingProgram(name string) hostrun.Command {
	return shellCommand(fmt.Sprintf("echo begun; echo doing it >&2; touch /tmp/%[1]s-begun; until [ -e /tmp/%[1]s-go ]; do sleep 0.05; done; echo done; touch /tmp/%[1]s-done; exit 3", name))
}

// TestHostRun verifies that a process in a pod can run programs on the node through a real systemd.
// The process has its own namespaces, uid 0 and no capabilities.
func TestHostRun(t *testing.T) {
	net := must.Get(testcloud.NewFakeNetwork())(t)
	t.Cleanup(net.Close)
	program := filepath.Join(t.TempDir(), "hostrun")
	build := exec.Command("go", "build", "-o", program, "./hostrun")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	h := podRunner{node.StartMachine(t, node.MachineOptions{Net: net, Programs: map[string]string{hostrunProgram: program}})}
	t.Run("ends", func(t *testing.T) { testHostRunExit(t, h) })
	t.Run("quiet", func(t *testing.T) { testHostRunJournal(t, h) })
	t.Run("refused", func(t *testing.T) { testHostRunRefused(t, h) })
	t.Run("another", func(t *testing.T) { testHostRunNameInUse(t, h) })
	t.Run("kept", func(t *testing.T) { testHostRunOutput(t, h) })
	t.Run("unit file", func(t *testing.T) { testHostRunUnitFile(t, h) })
	t.Run("meanwhile", func(t *testing.T) { testHostRunReload(t, h) })
	t.Run("killed", func(t *testing.T) { testHostRunPodKilled(t, h) })
	if left := h.machine.Run(t, "systemctl", "list-units", "--all", "--no-legend", "regcred*"); left != "" {
		t.Errorf("left: %s", left)
	}
	if said := h.machine.Run(t, "systemctl", "is-system-running"); said != "running\n" {
		t.Errorf("systemd is %s", said)
	}
}

// testHostRunExit verifies exit codes and output of programs.
func testHostRunExit(t *testing.T, h podRunner) {
	h.machine.WriteFile(t, "/tmp/not-executable", "#!/bin/sh\n", 0o644)
	h.machine.Run(t, "sh", "-c", "mkdir -p /mnt/noexec && mount -t tmpfs -o noexec tmpfs /mnt/noexec && printf '#!/bin/sh\\n' >/mnt/noexec/program && chmod 755 /mnt/noexec/program")
	const big = 3 << 20
	for _, tt := range []struct {
		name    string
		command hostrun.Command
		want    runResult
	}{
		{"both outputs", shellCommand("echo out; echo err >&2; exit 3"), runResult{Code: 3, stdout: "out\n", Stderr: "err\n"}},
		{"the node's own", shellCommand("readlink /proc/self/exe; cat /proc/1/comm; test -S /run/systemd/private; tr -d '\\0' </proc/self/cgroup | grep -o regcred-agent.service | sort -u"),
			runResult{stdout: h.machine.Run(t, "readlink", "-f", "/bin/readlink") + "systemd\nregcred-agent.service\n"}},
		{"arguments as they are", hostrun.Command{Path: "/bin/sh", Args: []string{"-c", `printf '%s\n' "$@"`, "sh", "$HOME %n %%", "", "a b\\n;'\""}},
			runResult{stdout: "$HOME %n %%\n\na b\\n;'\"\n"}},
		{"nothing", hostrun.Command{Path: "/bin/true"}, runResult{}},
		{"much", shellCommand(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", big)), runResult{stdout: strings.Repeat("x", big)}},
		{"too much", shellCommand("head -c 9000000 /dev/zero | tr '\\0' x"), runResult{Code: 1, stdout: strings.Repeat("x", 4<<20), Error: "the output is longer than 4 MiB"}},
		{"absent", hostrun.Command{Path: "/var/lib/kubelet/pods/u/absent"}, runResult{Error: "the node cannot execute /var/lib/kubelet/pods/u/absent (203/EXEC): the file does not exist", Type: "*hostrun.NotStartedError"}},
		{"not executable", hostrun.Command{Path: "/tmp/not-executable"}, runResult{Error: "(203/EXEC)", Type: "*hostrun.NotStartedError"}},
		{"noexec", hostrun.Command{Path: "/mnt/noexec/program"}, runResult{Error: "(203/EXEC)", Type: "*hostrun.NotStartedError"}},
		{"a signal", shellCommand("kill -9 $$"), runResult{Error: "/bin/sh was stopped: by signal 9 (killed)", Type: "*hostrun.KilledError"}},
		{"too long", hostrun.Command{Path: "/bin/sh", Args: []string{"-c", "echo begun; exec sleep 1000"}, Timeout: time.Second},
			runResult{stdout: "begun\n", Error: "/bin/sh was stopped: it ran longer than 1s", Type: "*hostrun.KilledError"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := h.runInPod(t, tt.command)
			if got.Type != tt.want.Type && tt.want.Type != "" || (got.Error == "") != (tt.want.Error == "") || !strings.Contains(got.Error, tt.want.Error) {
				t.Errorf("got %q of type %s, want %q of type %s", got.Error, got.Type, tt.want.Error, tt.want.Type)
			}
			if tt.name == "too much" {
				got.Stderr = "" // contains a message of tr
			}
			if got.Code != tt.want.Code || got.stdout != tt.want.stdout || got.Stderr != tt.want.Stderr {
				t.Errorf("got code %d, %d bytes %.100q and %q, want %d, %d bytes %.100q and %q",
					got.Code, len(got.stdout), got.stdout, got.Stderr, tt.want.Code, len(tt.want.stdout), tt.want.stdout, tt.want.Stderr)
			}
			for name, want := range map[string]string{"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1", "Uid": "0 0 0 0"} {
				if got.Rights[name] != want {
					t.Errorf("it ran with %s %s, want %s", name, got.Rights[name], want)
				}
			}
		})
	}
}

// testHostRunJournal verifies that runs write nothing to the journal, whatever their exit codes.
// Only a program that cannot be executed writes one line.
func testHostRunJournal(t *testing.T, h podRunner) {
	lines := func() []string {
		h.machine.Run(t, "journalctl", "--sync")
		return slices.Collect(strings.Lines(h.machine.Run(t, "journalctl", "--no-pager", "--all", "--output=short")))
	}
	before := len(lines())
	for code := range 10 {
		if r := h.runInPod(t, shellCommand(fmt.Sprintf("echo out; echo err >&2; exit %d", code%4))); r.Code != code%4 {
			t.Fatalf("got %+v", r)
		}
	}
	for _, line := range lines()[before:] {
		if !strings.Contains(line, "kubelet[") && !strings.Contains(line, "containerd[") {
			t.Errorf("the journal has: %s", line)
		}
	}
	h.runInPod(t, hostrun.Command{Path: "/absent"})
	if all := strings.Join(lines()[before:], ""); !strings.Contains(all, "/absent: No such file or directory") {
		t.Errorf("the journal does not say why a program was not executed:\n%s", all)
	}
}

// testHostRunRefused verifies that a process without uid 0, or without access to systemd, gets an
// error immediately.
func testHostRunRefused(t *testing.T, h podRunner) {
	for _, tt := range []struct{ name, uid, socket, kind, says string }{
		{"another user", "65534", hostrunSocket, "*hostrun.PermissionError", "this process has uid 65534, but systemd accepts only uid 0: set securityContext.runAsUser: 0"},
		{"no socket", "0", "/mnt/absent/private", "*hostrun.NotMountedError", "the node's /mnt/absent is not mounted into this pod"},
		{"no socket but a file", "0", "/etc/passwd", "*hostrun.NotMountedError", "the node's /etc is not mounted into this pod"},
		{"a node without systemd", "0", "/mnt/empty/private", "*hostrun.NoSystemdError", "this node does not run systemd: /mnt/empty has no socket ("},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := must.Get(h.runAsUser(t.Context(), tt.uid, tt.socket, time.Minute, hostrun.Command{Path: "/bin/true"}))(t)
			t.Logf("after %v: %s", r.Took, r.Error)
			if r.Type != tt.kind || !strings.Contains(r.Error, tt.says) || r.Took > 10*time.Second {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// testHostRunNameInUse verifies that a run waits for a running unit of the same name, and resets a
// failed unit.
func testHostRunNameInUse(t *testing.T, h podRunner) {
	first := h.startInPod(t, waitingProgram("first"), "/tmp/first-begun")
	r, err := h.runAsUser(t.Context(), "0", hostrunSocket, time.Second, hostrun.Command{Path: "/bin/touch", Args: []string{"/tmp/second"}})
	if err != nil || !strings.Contains(r.Error, "context deadline exceeded; if regcred-agent.service was started, it continues") {
		t.Errorf("while another runs: %+v, %v", r, err)
	}
	if h.machine.Command(t.Context(), "test", "-e", "/tmp/second").Run() == nil {
		t.Error("two have run at once")
	}
	second := make(chan runResult, 1)
	go func() {
		r, err := h.runAsUser(t.Context(), "0", hostrunSocket, time.Minute, shellCommand("test -e /tmp/first-done && echo after"))
		if err != nil {
			r.Error = err.Error()
		}
		second <- r
	}()
	h.machine.Run(t, "touch", "/tmp/first-go")
	if r := first(); r.Code != 3 || r.Error != "" || r.stdout != "begun\ndone\n" || r.Stderr != "doing it\n" {
		t.Errorf("the first: %+v", r)
	}
	if r := <-second; r.Error != "" || r.stdout != "after\n" {
		t.Errorf("the second: %+v", r)
	}
	h.machine.Run(t, "sh", "-c", "systemd-run --unit="+hostrunUnit+" --remain-after-exit /bin/true; systemctl reset-failed")
	if r := h.runInPod(t, shellCommand("echo mine")); r.Error != "" || r.stdout != "mine\n" {
		t.Errorf("after one that has ended: %+v", r)
	}
	_ = h.machine.Command(t.Context(), "systemd-run", "--unit="+hostrunUnit, "--property=Type=oneshot", "/bin/false").Run()
	if r := h.runInPod(t, shellCommand("echo mine")); r.Error != "" || r.stdout != "mine\n" {
		t.Errorf("after one that has failed: %+v", r)
	}
}

// testHostRunOutput verifies that a program's output can be read from a file after the process that
// started the program has exited.
func testHostRunOutput(t *testing.T, h podRunner) {
	kept := waitingProgram("kept")
	kept.OutputFile = "/tmp/kept"
	if r, err := h.runAsUser(t.Context(), "0", hostrunSocket, 2*time.Second, kept); err != nil || !strings.Contains(r.Error, "continues") {
		t.Fatalf("got %+v, %v", r, err)
	}
	h.machine.Run(t, "touch", "/tmp/kept-go")
	if r := h.runInPod(t, shellCommand("cat /tmp/kept")); r.stdout != "begun\ndone\n" { // runs after the first program has exited
		t.Errorf("got %+v", r)
	}
}

// testHostRunUnitFile verifies that a unit file of the same name on the node is reported
// immediately, without repeated calls of systemd. A drop-in for all services must be harmless.
func testHostRunUnitFile(t *testing.T, h podRunner) {
	const file = "/etc/systemd/system/" + hostrunUnit
	for name, make := range map[string]string{
		"stopped": "printf '[Service]\nExecStart=/bin/sleep 1000\n' >" + file + "; systemctl daemon-reload",
		"running": "printf '[Service]\nExecStart=/bin/sleep 1000\n' >" + file + "; systemctl daemon-reload; systemctl start " + hostrunUnit,
		"masked":  "systemctl mask " + hostrunUnit,
		"broken":  "printf '[Service]\n' >" + file + "; systemctl daemon-reload",
	} {
		t.Run(name, func(t *testing.T) {
			h.machine.Run(t, "sh", "-c", make)
			r, err := h.runAsUser(t.Context(), "0", hostrunSocket, 10*time.Second, hostrun.Command{Path: "/bin/true"})
			if err != nil || !strings.Contains(r.Error, "its own unit file named "+hostrunUnit+" ("+file+")") || r.Took > 5*time.Second {
				t.Errorf("got %+v, %v", r, err)
			}
			_ = h.machine.Command(t.Context(), "systemctl", "stop", hostrunUnit).Run() // the unit may have been started
			h.machine.Run(t, "sh", "-c", "rm "+file+"; systemctl daemon-reload; systemctl reset-failed")
		})
	}
	h.machine.Run(t, "sh", "-c", "mkdir /etc/systemd/system/service.d && printf '[Service]\nEnvironment=A=b\n' >/etc/systemd/system/service.d/all.conf && systemctl daemon-reload")
	if r := h.runInPod(t, shellCommand("echo $A")); r.Error != "" || r.stdout != "b\n" {
		t.Errorf("with a drop-in for all services: %+v", r)
	}
	h.machine.Run(t, "sh", "-c", "rm -r /etc/systemd/system/service.d && systemctl daemon-reload")
}

// testHostRunReload verifies that a program survives daemon-reload and daemon-reexec. If the
// program's unit is stopped, the run must report it.
func testHostRunReload(t *testing.T, h podRunner) {
	for _, verb := range []string{"daemon-reload", "daemon-reexec"} {
		t.Run(verb, func(t *testing.T) {
			end := h.startInPod(t, waitingProgram(verb), "/tmp/"+verb+"-begun")
			for range 8 {
				h.machine.Run(t, "systemctl", verb)
			}
			h.machine.Run(t, "touch", "/tmp/"+verb+"-go")
			if r := end(); r.Code != 3 || r.Error != "" || r.stdout != "begun\ndone\n" || r.Stderr != "doing it\n" {
				t.Errorf("got %+v", r)
			}
		})
	}
	t.Run("all the time", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for ctx.Err() == nil {
				_ = h.machine.Command(ctx, "systemctl", "daemon-reexec").Run()
				select { // systemd has to respond in between, also on a busy machine
				case <-time.After(200 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		}()
		for i := range 2 {
			if r := h.runInPod(t, shellCommand(fmt.Sprintf("echo %d && exit %[1]d", i))); r.Code != i || r.Error != "" || r.stdout != fmt.Sprintln(i) {
				t.Errorf("got %+v", r)
			}
		}
		cancel()
		<-stopped
		node.Eventually(t, time.Minute, func(ctx context.Context) error { return h.machine.Command(ctx, "systemctl", "is-system-running").Run() })
	})
	t.Run("stopped", func(t *testing.T) {
		end := h.startInPod(t, waitingProgram("stopped"), "/tmp/stopped-begun")
		h.machine.Run(t, "systemctl", "stop", hostrunUnit)
		if r := end(); r.Type != "*hostrun.ResultLostError" {
			t.Errorf("got %+v", r)
		}
	})
}

// testHostRunPodKilled verifies that a program continues and can print after its pod is killed. The
// next pod must wait for the program.
func testHostRunPodKilled(t *testing.T, h podRunner) {
	first := h.execCommand(t.Context(), "0", hostrunSocket, time.Minute, waitingProgram("killed"))
	must.Do(t, first.Start())
	h.waitForFile(t, "/tmp/killed-begun")
	pid := strings.TrimSpace(h.machine.Run(t, "pgrep", "-x", "hostrun"))
	h.machine.Run(t, "kill", "-9", pid)
	if err := first.Wait(); err == nil {
		t.Error("it was not killed")
	}
	if got := h.machine.Run(t, "systemctl", "show", "--value", "--property=SubState", hostrunUnit); got != "running\n" {
		t.Fatalf("the unit is %s", got)
	}
	h.machine.Run(t, "touch", "/tmp/killed-go")
	h.waitForFile(t, "/tmp/killed-done")
	if r := h.runInPod(t, shellCommand("test -e /tmp/killed-done && echo after")); r.stdout != "after\n" || r.Error != "" {
		t.Errorf("got %+v", r)
	}
}
