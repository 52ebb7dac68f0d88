// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inroot_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/must"
)

// encodeACL returns an access control list in the format of Linux: the owner and the group may do
// nothing more than the mode of the file says, and user 1234 may read.
func encodeACL() string {
	list := binary.LittleEndian.AppendUint32(nil, 2) // POSIX_ACL_XATTR_VERSION in linux/posix_acl_xattr.h
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 6, ^uint32(0)}, {2, 4, 1234}, {4, 0, ^uint32(0)}, {16, 4, ^uint32(0)}, {32, 0, ^uint32(0)}} {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.perm)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	return string(list)
}

// setAttr sets an extended attribute. It skips the test if the file system or this process
// cannot.
func setAttr(t *testing.T, file, name, value string) {
	t.Helper()
	err := unix.Setxattr(file, name, []byte(value), 0)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EPERM) {
		t.Skipf("%s cannot be set here: %v", name, err)
	}
	must.Do(t, err)
}

// readXattrs returns all extended attributes of a file.
func readXattrs(t *testing.T, file string) map[string]string {
	t.Helper()
	buf := make([]byte, 64<<10)
	n := must.Get(unix.Listxattr(file, buf))(t)
	list := map[string]string{}
	for _, name := range strings.Split(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		if value := make([]byte, 64<<10); name != "" {
			list[name] = string(value[:must.Get(unix.Getxattr(file, name, value))(t)])
		}
	}
	return list
}

// TestAttributesKept verifies that a file that is replaced keeps each extended attribute, and
// that it does not inherit an access control list that it did not have.
func TestAttributesKept(t *testing.T) {
	capability := string(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0x02000001), 1<<10)) + strings.Repeat("\x00", 12)
	for _, tt := range []struct{ name, attr, value string }{
		{"access control list", "system.posix_acl_access", encodeACL()},
		{"user attribute", "user.origin", "x"},
		{"empty attribute", "user.empty", ""},
		{"trusted attribute", "trusted.origin", "x"},
		{"capabilities", "security.capability", capability},
		{"SELinux label", "security.selinux", "system_u:object_r:kubernetes_file_t:s0"},
		{"long SELinux label", "security.selinux", "system_u:object_r:kubernetes_file_t:s0:c" + strings.Repeat("1,c", 100) + "1"},
		{"none", "", ""},
	} {
		for _, inherits := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				root := t.TempDir()
				file := filepath.Join(root, "dir", "f")
				writeFile(t, file, "old")
				must.Do(t, os.Chmod(file, 0o640))
				if tt.attr != "" {
					setAttr(t, file, tt.attr, tt.value)
				}
				want := readXattrs(t, file)
				if inherits {
					setAttr(t, filepath.Dir(file), "system.posix_acl_default", encodeACL())
				}
				f := inroot.FS{Root: root}
				attr := must.Get(f.AttrOf("/dir/f"))(t)
				must.Do(t, f.WriteFile("/dir/f", strings.NewReader("new"), attr))
				if got := readXattrs(t, file); !maps.Equal(got, want) {
					t.Errorf("attributes after the change: %q, want %q", got, want)
				}
				if info := must.Get(os.Stat(file))(t); info.Mode() != 0o640 {
					t.Errorf("mode %v", info.Mode())
				}
			})
		}
	}
}

// TestAttributesNotAllowed verifies that a file is not replaced if this process may not set one
// of its attributes.
func TestAttributesNotAllowed(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "f"), "old")
	f := inroot.FS{Root: root}
	attr := must.Get(f.AttrOf("/f"))(t)
	attr.Extended = map[string]string{"nosuch.attribute": "x"}
	if err := f.WriteFile("/f", strings.NewReader("new"), attr); err == nil || !strings.Contains(err.Error(), "set the attribute nosuch.attribute of "+root) {
		t.Errorf("got %v", err)
	}
	list := must.Get(os.ReadDir(root))(t)
	if data := must.Get(os.ReadFile(filepath.Join(root, "f")))(t); string(data) != "old" || len(list) != 1 {
		t.Errorf("content %q, files %v", data, list)
	}
}

// TestNotReplaceable verifies that WritableError reports hard links and signatures, which a new
// file would not have.
func TestNotReplaceable(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, file string)
		says   string
	}{
		"hard link": {func(t *testing.T, file string) { must.Do(t, os.Link(file, file+".other")) }, "has 2 names (hard links)"},
		"signature": {func(t *testing.T, file string) { setAttr(t, file, "security.ima", "\x03\x02sig") }, "the file is signed"},
		"hash":      {func(t *testing.T, file string) { setAttr(t, file, "security.ima", "\x04\x04hash") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			writeFile(t, filepath.Join(root, "f"), "old")
			tt.change(t, filepath.Join(root, "f"))
			err := inroot.FS{Root: root}.WritableError("/f")
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}

// TestLongNames verifies that a file name of 255 bytes, the limit of Linux, can be written, and
// that its temporary files are found.
func TestLongNames(t *testing.T) {
	for _, length := range []int{230, 231, 232, 254, 255} {
		root, name := t.TempDir(), "/"+strings.Repeat("x", length)
		f := inroot.FS{Root: root}
		if err := f.WriteFile(name, strings.NewReader("x"), inroot.FileAttr{Mode: 0o600}); err != nil {
			t.Errorf("%d bytes: write: %v", length, err)
		}
		if err := f.Symlink("/target", name); err != nil {
			t.Errorf("%d bytes: link: %v", length, err)
		}
		var temp []string
		f.BeforeStep = func(step, _ string) error {
			if step == "rename" {
				list := must.Get(os.ReadDir(root))(t)
				temp = append(temp, list[0].Name())
			}
			return nil
		}
		must.Do(t, f.WriteFile(name, strings.NewReader("x"), inroot.FileAttr{Mode: 0o600}))
		must.Do(t, os.WriteFile(filepath.Join(root, temp[0]), nil, 0o600))
		f.RemoveTempFiles(name)
		list := must.Get(os.ReadDir(root))(t)
		if len(temp) != 1 || len(list) != 1 || slices.Contains(temp, list[0].Name()) {
			t.Errorf("%d bytes: left %v, temporary file %q", length, list, temp)
		}
	}
}
