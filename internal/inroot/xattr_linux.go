// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inroot

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// aclXattr contains a file's access control list (acl(5)). A new file inherits one if its
// directory has a default list.
const aclXattr = "system.posix_acl_access"

// imaXattr contains a hash or a signature of the content (Documentation/ABI/testing/ima_policy).
const imaXattr = "security.ima"

// contentXattrs are computed by the kernel when a file is written, so they are not copied.
var contentXattrs = map[string]bool{imaXattr: true, "security.evm": true}

// maxXattr is the maximum size of an extended attribute, and of a list of names, on Linux.
const maxXattr = 64 << 10

// extendedAttrs returns the extended attributes of a file, except those that depend on its
// content. The result is not nil.
func extendedAttrs(at string) (map[string]string, error) {
	attrs := map[string]string{}
	buf := make([]byte, maxXattr)
	n, err := unix.Llistxattr(at, buf)
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		return nil, &fs.PathError{Op: "list the extended attributes of", Path: at, Err: err}
	}
	for name := range strings.SplitSeq(string(buf[:max(n, 0)]), "\x00") {
		if name == "" || contentXattrs[name] {
			continue
		}
		n, err := unix.Lgetxattr(at, name, buf)
		switch {
		case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP):
			continue // removed in the meantime, or only listed
		case err != nil:
			return nil, &fs.PathError{Op: "read the attribute " + name + " of", Path: at, Err: err}
		}
		attrs[name] = string(buf[:n])
	}
	return attrs, nil
}

// setExtendedAttrs gives a new file the attributes of another one. It removes an access control
// list that the file has inherited from its directory.
func setExtendedAttrs(file *os.File, want map[string]string) error {
	for name, value := range want {
		if has, ok := getXattr(file, name); ok && has == value {
			continue // setting the same SELinux label may still need a permission
		}
		if err := unix.Fsetxattr(int(file.Fd()), name, []byte(value), 0); err != nil {
			return &fs.PathError{Op: "set the attribute " + name + " of", Path: file.Name(), Err: err}
		}
	}
	if _, inherited := getXattr(file, aclXattr); want[aclXattr] != "" || !inherited {
		return nil
	}
	if err := unix.Fremovexattr(int(file.Fd()), aclXattr); err != nil {
		return &fs.PathError{Op: "remove the inherited access control list of", Path: file.Name(), Err: err}
	}
	return nil
}

func getXattr(file *os.File, name string) (value string, ok bool) {
	buf := make([]byte, maxXattr)
	n, err := unix.Fgetxattr(int(file.Fd()), name, buf)
	return string(buf[:max(n, 0)]), err == nil
}

// isSigned reports whether a file has a signature of its content, which only the owner of the
// key can renew.
func isSigned(at string) bool {
	const signature = 3 // EVM_IMA_XATTR_DIGSIG in security/integrity/integrity.h of Linux
	buf := make([]byte, maxXattr)
	n, err := unix.Getxattr(at, imaXattr, buf)
	return err == nil && n > 0 && buf[0] == signature
}
