// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestACL verifies that CheckTrust rejects a file that its access control list makes writable
// for another user.
func TestACL(t *testing.T) {
	needRoot(t)
	root := newRoot(t, map[string]string{"c.yaml": "", "bin/p": ""})
	config := filepath.Join(root, "c.yaml")
	must.Do(t, os.Chmod(config, 0o664))
	o := &Origin{From: "here", Config: config, BinDir: filepath.Join(root, "bin")}
	if err := (Node{Root: root}).CheckTrust(o, []string{"p"}); err != nil {
		t.Fatalf("writable by root's group: %v", err)
	}
	list := binary.LittleEndian.AppendUint32(nil, 2) // POSIX_ACL_XATTR_VERSION in linux/posix_acl_xattr.h
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 6, ^uint32(0)}, {2, 6, otherUser}, {4, 4, ^uint32(0)}, {16, 6, ^uint32(0)}, {32, 4, ^uint32(0)}} {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.perm)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	if err := syscall.Setxattr(config, "system.posix_acl_access", list, 0); errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("no access control lists here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	err := (Node{Root: root}).CheckTrust(o, []string{"p"})
	if err == nil || !strings.Contains(err.Error(), "writable through an access control list") {
		t.Errorf("got %v, want an error about write access", err)
	}
}
