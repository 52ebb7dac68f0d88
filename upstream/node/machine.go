// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/testcloud"
)

// MachineOptions are what a machine is made of. Net is required.
type MachineOptions struct {
	Net    *testcloud.Net // what its containerd reaches
	Name   string         // of the node; "" means "node"
	Layout Layout         // nil means Kubeadm
	Flags  []string       // of the kubelet

	// Files are written before the first boot, by path. One whose content
	// begins with "-> " is a link. Programs are copied: from paths of the test.
	Files, Programs map[string]string

	// Of a node of a cluster: a network of its own, and its control plane.
	link    *link
	control *ControlPlane
}

// Machine is a computer: systemd is its first process, and starts containerd
// and a kubelet. It has a root filesystem in memory. There, /usr is this
// machine's, and what is written to it stays in memory. Its kubelet listens at the
// usual ports. Those of [StartCluster] have networks of their own; that of
// [StartMachine] has the run's: there can be one at a time, for static pods.
type Machine struct {
	Kubelet    *Kubelet    // its pods; the machine runs it
	Containerd *Containerd // its clients; the machine runs it

	options MachineOptions
	dir     string
	process *process
	pid     int // of systemd, in the run's namespace
}

// StartMachine makes a machine, boots it, and waits until its kubelet is
// healthy.
func StartMachine(t testing.TB, o MachineOptions) *Machine {
	t.Helper()
	m := newMachine(t, o)
	m.Boot(t)
	return m
}

// newMachine makes a machine that has not been booted.
func newMachine(t testing.TB, o MachineOptions) *Machine {
	t.Helper()
	o.Name = cmp.Or(o.Name, "node")
	dir := tempDir(t, "machine")
	m := &Machine{options: o, dir: dir, process: newProcess(t, dir, []string{"container=regcred"}, "sh")}
	m.Kubelet = &Kubelet{Options: KubeletOptions{Name: o.Name}, dir: m.Path("/etc/kubernetes")}
	t.Cleanup(func() { m.end(t) })
	m.makeRoot(t)
	return m
}

// Name is that of the node.
func (m *Machine) Name() string { return m.options.Name }

// Boot starts the machine after [Machine.Halt].
func (m *Machine) Boot(t testing.TB) {
	t.Helper()
	args := []string{"-c", enterGroups, "sh", m.group()}
	if m.options.link != nil {
		args = append(args, "nsenter", "--net="+m.options.link.path())
	}
	m.process.start(t, append(args, "unshare", "--mount", "--pid", "--ipc", "--uts", "--cgroup",
		"--fork", "--kill-child", "sh", "-c", bootSystemd, "sh", m.Path("/"), m.Name())...)
	m.process.waitReady(t, func(ctx context.Context) (err error) {
		if m.pid, err = m.findSystemd(); err != nil {
			return err
		}
		return m.booted(ctx)
	})
	m.connect(t)
	m.process.waitReady(t, m.Healthy)
}

// findSystemd is the process that unshare has started.
func (m *Machine) findSystemd() (pid int, err error) {
	parent := m.process.cmd.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if err == nil {
		_, err = fmt.Sscan(string(children), &pid)
	}
	return pid, err
}

// booted says what systemd still has to start, or could not start.
func (m *Machine) booted(ctx context.Context) error {
	said, err := m.Command(ctx, "systemctl", "is-system-running").CombinedOutput()
	switch state := strings.TrimSpace(string(said)); state {
	case "running":
		return nil
	case "degraded":
		said, _ := m.Command(ctx, "systemctl", "--failed", "--no-legend", "--plain").CombinedOutput()
		return stopError{fmt.Errorf("systemd could not start: %s", said)}
	default:
		return fmt.Errorf("systemd is %s: %w", state, err)
	}
}

// Healthy says why the kubelet is not.
func (m *Machine) Healthy(ctx context.Context) error {
	_, err := fetch(ctx, m.client(), "http://127.0.0.1:10248/healthz")
	return err
}

// Halt shuts the machine down, in order. All processes end.
func (m *Machine) Halt(t testing.TB) {
	t.Helper()
	// systemd(1): SIGRTMIN+4 starts poweroff.target.
	if err := syscall.Kill(m.pid, syscall.Signal(34+4)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-m.process.done:
	case <-t.Context().Done():
	}
	// The kernel, which goes on, would show the next kubelet what ran.
	if err := removeMachineGroups(m.group()); err != nil {
		t.Fatal(err)
	}
}

// Reboot shuts the machine down and boots it again: /run and /tmp are empty
// then, and the kernel's boot id is another one.
func (m *Machine) Reboot(t testing.TB) {
	t.Helper()
	m.Halt(t)
	m.Boot(t)
}

// group is the name of the control groups in which the machine has its own.
func (m *Machine) group() string { return machineGroup(dir()) + filepath.Base(m.dir) }

// end leaves nothing of the machine.
func (m *Machine) end(t testing.TB) {
	m.process.stop()
	if t.Failed() {
		said, _ := exec.Command("journalctl", "--directory", m.Path("/var/log/journal"), "--no-pager", "--lines=60", "--output=short-iso-precise").CombinedOutput()
		t.Logf("the end of the machine's journal:\n%s", masked(strings.Split(string(said), "\n")))
	}
	if err := removeMachineGroups(m.group()); err != nil {
		t.Error(err)
	}
	if said, err := exec.Command("umount", "--lazy", "--recursive", m.dir+"/disk").CombinedOutput(); err != nil {
		t.Errorf("umount: %v: %s", err, said)
	}
}
