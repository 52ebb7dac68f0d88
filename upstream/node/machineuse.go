// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Command returns a command that runs in the machine, as root and in /.
func (m *Machine) Command(ctx context.Context, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(m.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME=/root"}
	return cmd
}

// Run runs a program in the machine and returns its stdout and stderr. It fails the test
// if the program fails.
func (m *Machine) Run(t testing.TB, args ...string) string {
	t.Helper()
	said, err := m.Command(t.Context(), args...).CombinedOutput()
	if err != nil {
		lines := strings.Split(string(said), "\n")
		t.Fatalf("%q: %v\n%s", args, err, maskLines(lines[max(0, len(lines)-40):]))
	}
	return string(said)
}

// Restart restarts a unit and waits until systemd has done so.
func (m *Machine) Restart(t testing.TB, unit string) {
	t.Helper()
	m.Run(t, "systemctl", "restart", unit)
}

// UnitLog returns a unit's log messages since the machine was created, without truncation.
func (m *Machine) UnitLog(t testing.TB, unit string) string {
	t.Helper()
	return m.Run(t, "journalctl", "--unit", unit, "--output=cat", "--no-pager", "--all")
}

// MainPID returns a unit's main PID in the machine, or 0 if the unit is not running.
func (m *Machine) MainPID(t testing.TB, unit string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(m.Run(t, "systemctl", "show", "--property=MainPID", "--value", unit)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// RunningContainerIDs returns the sorted IDs of the running containers.
func (m *Machine) RunningContainerIDs(t testing.TB) (ids []string) {
	t.Helper()
	list, err := m.Containerd.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.GetContainers() {
		ids = append(ids, c.GetId())
	}
	slices.Sort(ids)
	return ids
}

// DescribeFiles describes the files below directories of the machine, by path. A description
// consists of the type, mode and owner, a symlink's target, and the SHA-256 of a regular file. dirs
// may also list files. Missing paths are ignored.
func (m *Machine) DescribeFiles(t testing.TB, dirs ...string) map[string]string {
	t.Helper()
	dirs = slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return m.Command(t.Context(), "test", "-e", dir).Run() != nil })
	tree := map[string]string{}
	find := func(args ...string) []string {
		all := append(append([]string{"find"}, dirs...), args...)
		return strings.Split(strings.TrimSuffix(m.Run(t, all...), "\x00"), "\x00")
	}
	for _, line := range find("-printf", `%p\n%y %m %U:%G %l\0`) {
		path, what, _ := strings.Cut(line, "\n")
		tree[path] = strings.TrimSpace(what)
	}
	for _, line := range find("-type", "f", "-exec", "sha256sum", "--zero", "{}", "+") {
		if sum, path, ok := strings.Cut(line, "  "); ok {
			tree[path] = fmt.Sprintf("%s sha256:%s", tree[path], sum)
		}
	}
	return tree
}
