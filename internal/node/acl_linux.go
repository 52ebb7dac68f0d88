// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import "syscall"

// hasACL reports whether a file has an access control list (acl(5)).
func hasACL(path string) bool {
	size, err := syscall.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && size > 0
}
