// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import "strings"

// programLabel is the SELinux label of programs on a node. systemd is not allowed to
// execute a file with the label of a container volume.
const programLabel = "system_u:object_r:bin_t:s0"

// labelToSet returns the label to set so that the node can execute a file, or "" if no
// change is needed. now is the file's current label. selinux is true if /sys/fs/selinux
// exists, but a pod may see only the label.
func labelToSet(now string, selinux bool) string {
	if parts := strings.Split(now, ":"); now == "" && !selinux || len(parts) > 2 && parts[2] == "bin_t" {
		return ""
	}
	return programLabel
}
