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
// containers that nobody removed.

// containerGroup is the control group in which containerd puts all containers.
const containerGroup = "k8s.io"

// removeGroups removes the control groups of the containers that are left in a
// directory, from every hierarchy. A group can be removed when its last
// process is gone, for which the kernel takes a moment.
func removeGroups(dir string) error {
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
