// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Namespaces do not clean up control groups, so a run must remove the groups of its
// machines and of leftover containers.

// containerGroup is the parent control group of all containerd containers.
const containerGroup = "k8s.io"

// removeGroups removes the control groups of a run's machines and remaining containers
// from every hierarchy. It retries, because the kernel needs a moment after a group's last
// process exits.
func removeGroups(dir string) error {
	if err := removeMachineGroups(machineGroup(dir) + "*"); err != nil {
		return err
	}
	// Containerd names a directory after each container and sandbox.
	left, _ := filepath.Glob(filepath.Join(dir, "containerd*", "root", "io.containerd.grpc.v1.cri", "*", "*"))
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left = slices.DeleteFunc(left, func(path string) bool { return removeGroup(filepath.Base(path)) })
		if len(left) == 0 {
			removeGroup("") // fails if other groups are left in it
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("control groups cannot be removed, of %q", left)
		}
	}
}

// removeGroup removes a container's groups and reports whether all are gone.
func removeGroup(id string) bool {
	gone := true
	for _, hierarchy := range []string{"", "*"} {
		groups, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", hierarchy, containerGroup, id))
		for _, group := range groups {
			gone = os.Remove(group) == nil && gone
		}
	}
	return gone
}

// machineGroup returns the prefix of the control group names of a run's machines.
func machineGroup(dir string) string { return filepath.Base(dir) + "-" }

// removeMachineGroups removes the groups that match a name or pattern, with their
// subgroups, from every hierarchy.
func removeMachineGroups(name string) error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var left []string
		for _, hierarchy := range []string{"", "*"} {
			groups, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", hierarchy, name))
			left = append(left, groups...)
		}
		if len(left) == 0 {
			return nil
		}
		for _, group := range left {
			removeTree(group)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("control groups cannot be removed: %q", left)
		}
	}
}

// removeTree removes a group's subgroups, and then the group.
func removeTree(group string) {
	below, _ := filepath.Glob(filepath.Join(group, "*", "cgroup.procs"))
	for _, procs := range below {
		removeTree(filepath.Dir(procs))
	}
	os.Remove(group)
}
