// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const selinuxXattr = "security.selinux"

// SetExecutableLabel gives a file that this process owns the SELinux label of the
// node's programs, if the node uses SELinux. The process needs no capability, but needs
// an SELinux type such as spc_t.
func SetExecutableLabel(file string) error {
	buffer := make([]byte, 512)
	n, err := unix.Getxattr(file, selinuxXattr, buffer)
	if err != nil {
		n = 0
	}
	_, err = os.Stat("/sys/fs/selinux/enforce")
	label := labelToSet(strings.TrimRight(string(buffer[:n]), "\x00"), err == nil)
	if label == "" {
		return nil
	}
	if err := unix.Setxattr(file, selinuxXattr, append([]byte(label), 0), 0); err != nil {
		return fmt.Errorf("set the SELinux label of %s to %s: %w (see the chart's value seLinux.type: spc_t)", file, label, err)
	}
	return nil
}
