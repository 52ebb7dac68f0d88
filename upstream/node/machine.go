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

// MachineOptions configures a machine. Net is required.
type MachineOptions struct {
	Net    *testcloud.FakeNetwork // network that its containerd can reach
	Name   string                 // node name; "" means "node"
	Layout LayoutFunc             // nil means KubeadmLayout
	Flags  []string               // additional kubelet flags

	// Files maps paths to contents, written before the first boot. A content "-> TARGET"
	// makes a symlink. Programs maps paths to files that are copied from the host.
	Files, Programs map[string]string

	// Set only for nodes of a cluster: its own network, and its control plane.
	network *machineNetwork
	control *ControlPlane
}

// Machine is a system container in which systemd starts containerd and a kubelet. Its root
// filesystem is in memory, and its /usr is an overlay over the host's. The kubelet listens on its
// default ports.
//
// Machines of [StartCluster] each have their own network. A machine of [StartMachine] shares the
// run's network, so there can be only one at a time, and it can run only static pods.
type Machine struct {
	Kubelet    *Kubelet    // gives access to the kubelet's pods; systemd runs the kubelet
	Containerd *Containerd // gives access to containerd's API; systemd runs containerd

	options MachineOptions
	dir     string
	process *testProcess
	pid     int // systemd's PID in the run's namespace
}

// StartMachine creates and boots a machine, and waits until its kubelet is healthy.
func StartMachine(t testing.TB, o MachineOptions) *Machine {
	t.Helper()
	m := newMachine(t, o)
	m.Boot(t)
	return m
}

// newMachine creates a machine without booting it.
func newMachine(t testing.TB, o MachineOptions) *Machine {
	t.Helper()
	o.Name = cmp.Or(o.Name, "node")
	dir := tempDir(t, "machine")
	m := &Machine{options: o, dir: dir, process: newProcess(t, dir, []string{"container=regcred"}, "sh")}
	m.Kubelet = &Kubelet{Options: KubeletOptions{Name: o.Name}, dir: m.HostPath("/etc/kubernetes")}
	t.Cleanup(func() { m.cleanUp(t) })
	m.createRootFS(t)
	return m
}

// Name returns the node's name.
func (m *Machine) Name() string { return m.options.Name }

// Boot starts the machine, also after [Machine.Halt].
func (m *Machine) Boot(t testing.TB) {
	t.Helper()
	args := []string{"-c", enterCgroupsScript, "sh", m.cgroup()}
	if m.options.network != nil {
		args = append(args, "nsenter", "--net="+m.options.network.namespacePath())
	}
	m.process.start(t, append(args, "unshare", "--mount", "--pid", "--ipc", "--uts", "--cgroup",
		"--fork", "--kill-child", "sh", "-c", bootScript, "sh", m.HostPath("/"), m.Name())...)
	m.process.waitReady(t, func(ctx context.Context) (err error) {
		if m.pid, err = m.findSystemd(); err != nil {
			return err
		}
		return m.checkBooted(ctx)
	})
	m.connectContainerd(t)
	m.process.waitReady(t, m.CheckHealthy)
}

// findSystemd returns the PID of unshare's child process.
func (m *Machine) findSystemd() (pid int, err error) {
	parent := m.process.cmd.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if err == nil {
		_, err = fmt.Sscan(string(children), &pid)
	}
	return pid, err
}

// checkBooted returns an error until systemd has started all units.
func (m *Machine) checkBooted(ctx context.Context) error {
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

// CheckHealthy returns an error if the kubelet is not healthy.
func (m *Machine) CheckHealthy(ctx context.Context) error {
	_, err := httpGet(ctx, m.httpClient(), "http://127.0.0.1:10248/healthz")
	return err
}

// Halt shuts the machine down gracefully. All of its processes end.
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
	// The host's kernel keeps the control groups, in which the next kubelet would find the
	// previous containers.
	if err := removeMachineCgroups(m.cgroup()); err != nil {
		t.Fatal(err)
	}
}

// Reboot shuts the machine down and boots it again. After that, /run and /tmp are empty,
// and the kernel's boot ID is different.
func (m *Machine) Reboot(t testing.TB) {
	t.Helper()
	m.Halt(t)
	m.Boot(t)
}

// cgroup returns the name of the machine's parent control group.
func (m *Machine) cgroup() string { return machineCgroupPrefix(testRunDir()) + filepath.Base(m.dir) }

// cleanUp stops the machine and removes everything that it created on the host.
func (m *Machine) cleanUp(t testing.TB) {
	m.process.stop()
	if t.Failed() {
		said, _ := exec.Command("journalctl", "--directory", m.HostPath("/var/log/journal"), "--no-pager", "--lines=60", "--output=short-iso-precise").CombinedOutput()
		t.Logf("the end of the machine's journal:\n%s", maskLines(strings.Split(string(said), "\n")))
	}
	if err := removeMachineCgroups(m.cgroup()); err != nil {
		t.Error(err)
	}
	if said, err := exec.Command("umount", "--lazy", "--recursive", m.dir+"/disk").CombinedOutput(); err != nil {
		t.Errorf("umount: %v: %s", err, said)
	}
}
