// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import "strings"

// programLabel is the SELinux label of a node's programs. systemd may not execute a file
// with the label of a container's volume.
const programLabel = "system_u:object_r:bin_t:s0"

// labelToSet returns the label to set so that the node can execute a file, "" if none. now
// is the file's label: a pod can read it even if it cannot see /sys/fs/selinux.
func labelToSet(now string, selinux bool) string {
	if parts := strings.Split(now, ":"); now == "" && !selinux || len(parts) > 2 && parts[2] == "bin_t" {
		return ""
	}
	return programLabel
}
