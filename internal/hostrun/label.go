// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import "strings"

// programLabel is that of programs of a node with SELinux. Those of a container's
// volume have another, which systemd may not execute.
const programLabel = "system_u:object_r:bin_t:s0"

// labelFor is the label that a file needs to be executed by the node, "" if it has
// it or there is none to set: with SELinux every file has one, and a pod sees that,
// while it need not see /sys/fs/selinux.
func labelFor(now string, selinux bool) string {
	if parts := strings.Split(now, ":"); now == "" && !selinux || len(parts) > 2 && parts[2] == "bin_t" {
		return ""
	}
	return programLabel
}
