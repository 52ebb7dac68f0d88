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

// What of a run is not within its namespaces are the control groups of
// containers that nobody removed, and of machines.

// containerGroup is the control group in which containerd puts all containers.
const containerGroup = "k8s.io"

// removeGroups removes the control groups of the containers that are left in a
// directory, and of its machines, from every hierarchy. A group can be removed
// when its last process is gone, for which the kernel takes a moment.
func removeGroups(dir string) error {
	if err := removeMachineGroups(machineGroup(dir) + "*"); err != nil {
		return err
	}
	// By the names of containers and sandboxes, below containerd's root.
	left, _ := filepath.Glob(filepath.Join(dir, "containerd*", "root", "io.containerd.grpc.v1.cri", "*", "*"))
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left = slices.DeleteFunc(left, func(path string) bool { return removeGroup(filepath.Base(path)) })
		if len(left) == 0 {
			removeGroup("") // or fail, if there are others in it
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("control groups cannot be removed, of %q", left)
		}
	}
}

// removeGroup reports whether a container has no group any more.
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

// machineGroup is what the names of the groups of a run's machines begin with.
func machineGroup(dir string) string { return filepath.Base(dir) + "-" }

// removeMachineGroups removes the groups of a name, which may be a pattern, and
// what is left in them, from every hierarchy.
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

// removeTree removes a group with those below it, which must go first.
func removeTree(group string) {
	below, _ := filepath.Glob(filepath.Join(group, "*", "cgroup.procs"))
	for _, procs := range below {
		removeTree(filepath.Dir(procs))
	}
	os.Remove(group)
}
