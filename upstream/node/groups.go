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

// containerCgroup is the parent control group of all containerd containers.
const containerCgroup = "k8s.io"

// removeAllCgroups removes the control groups of a run's machines and remaining containers
// from every hierarchy. It retries, because the kernel needs a moment after a group's last
// process exits.
func removeAllCgroups(dir string) error {
	if err := removeMachineCgroups(machineCgroupPrefix(dir) + "*"); err != nil {
		return err
	}
	// Containerd names a directory after each container and sandbox.
	left, _ := filepath.Glob(filepath.Join(dir, "containerd*", "root", "io.containerd.grpc.v1.cri", "*", "*"))
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left = slices.DeleteFunc(left, func(path string) bool { return removeContainerCgroup(filepath.Base(path)) })
		if len(left) == 0 {
			removeContainerCgroup("") // fails if other groups are left in it
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("control groups cannot be removed, of %q", left)
		}
	}
}

// removeContainerCgroup removes a container's groups and reports whether all are gone.
func removeContainerCgroup(id string) bool {
	gone := true
	for _, hierarchy := range []string{"", "*"} {
		groups, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", hierarchy, containerCgroup, id))
		for _, group := range groups {
			gone = os.Remove(group) == nil && gone
		}
	}
	return gone
}

// machineCgroupPrefix returns the prefix of the control group names of a run's machines.
func machineCgroupPrefix(dir string) string { return filepath.Base(dir) + "-" }

// removeMachineCgroups removes the groups that match a name or pattern, with their
// subgroups, from every hierarchy.
func removeMachineCgroups(name string) error {
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
			removeCgroupTree(group)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("control groups cannot be removed: %q", left)
		}
	}
}

// removeCgroupTree removes a group's subgroups, and then the group.
func removeCgroupTree(group string) {
	below, _ := filepath.Glob(filepath.Join(group, "*", "cgroup.procs"))
	for _, procs := range below {
		removeCgroupTree(filepath.Dir(procs))
	}
	os.Remove(group)
}
