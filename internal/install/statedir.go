// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/regcred/regcred/internal/node"
)

// volatileDirs are directories that are emptied at boot, or whose files are removed when they get
// old (file-hierarchy(7)).
var volatileDirs = []string{"/run", "/var/run", "/tmp", "/var/tmp", "/dev", "/proc", "/sys"}

// checkStateDirPlace returns an error if the state directory would not survive a boot, or if
// other users can replace it and so run programs as the kubelet's user.
func (in *Installer) checkStateDirPlace() error {
	dir := in.Store.Dir
	if !utf8.ValidString(dir) {
		return fmt.Errorf("the path of the state directory, %q, is not UTF-8", dir)
	}
	existing := in.existingAncestor(dir)
	real, err := in.fs().EvalSymlinks(existing)
	if err != nil {
		return err
	}
	real = path.Join(real, strings.TrimPrefix(dir, existing))
	isBelow := func(d string) bool {
		return strings.HasPrefix(dir+"/", d+"/") || in.fs().Root == "" && strings.HasPrefix(real+"/", d+"/")
	}
	if i := slices.IndexFunc(volatileDirs, isBelow); i >= 0 {
		return withHint("--state-dir selects another directory", "%s is below %s, which does not keep files, and the kubelet would not start without them", in.fs().HostPath(dir), volatileDirs[i])
	}
	// If the whole node is in memory, the kubelet's settings are as volatile as the state. The
	// mounts of this machine say nothing about those of another node.
	if in.fs().Root == "" && in.fs().IsVolatile(existing) && !in.fs().IsVolatile("/etc") {
		return withHint("--state-dir selects another directory", "%s is on a file system in memory, and after a boot the kubelet would not start without its files", dir)
	}
	return node.Node{Root: in.fs().Root}.CheckPathTrust(in.fs().HostPath(real), "the state directory")
}

// looseFiles returns the files of the state directory that users other than root can write. A
// change of the manifest, for example, decides which files an uninstall removes.
func (in *Installer) looseFiles(dir string) (list []string) {
	entries, _ := in.fs().ReadDir(dir)
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		info, err := in.fs().Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink != 0 || dir == in.Store.Dir && !isOwnName(e.Name()) {
			continue
		}
		if info.Mode().Perm()&0o022 != 0 {
			list = append(list, name)
		}
		if info.IsDir() {
			list = append(list, in.looseFiles(name)...)
		}
	}
	return list
}
