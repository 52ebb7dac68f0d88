// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"path"
	"strings"

	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
)

// fileHeader is the comment at the start of regcred's files.
const fileHeader = "# Made by regcred install; regcred uninstall takes it away.\n"

// stateDirInUse returns the state directory of the dispatcher that the kubelet's bin
// dir links to, or that regcred's drop-in refers to. It returns "" if there is neither.
func (in *Installer) stateDirInUse() string {
	bin := in.Setup.BinDir.Path
	if bin == "" {
		return ""
	}
	target, err := in.fs().Readlink(path.Join(bin, generation.DispatcherName))
	if err == nil && path.Base(target) == generation.DispatcherName {
		return path.Dir(target)
	}
	if u := in.Setup.Unit; u != nil && u.Ours != nil {
		if dir, ok := strings.CutSuffix(bin, path.Join("/", kubeletDirName, "bin")); ok {
			return dir
		}
	}
	return ""
}

// maxOwnEntries limits how many of regcred's entries are searched for. There is one for
// each token audience.
const maxOwnEntries = 32

// dispatcherLinkNames returns the names of the links to the dispatcher in the kubelet's
// bin dir. Entries with these names belong to regcred.
func (in *Installer) dispatcherLinkNames() (names []string) {
	list, err := in.fs().ReadDir(in.Setup.BinDir.Path)
	if err != nil && in.stateDirInUse() == in.Store.Dir {
		// The links were removed with the state directory.
		for n := range maxOwnEntries {
			names = append(names, entries.NumberedName(n+1))
		}
		return names
	}
	for _, e := range list {
		if target, err := in.fs().Readlink(path.Join(in.Setup.BinDir.Path, e.Name())); err == nil && target == in.Store.DispatcherPath() {
			names = append(names, e.Name())
		}
	}
	return names
}

// isFromRemovedState reports whether a file belongs to a state directory that no longer
// exists.
func (in *Installer) isFromRemovedState(from *generation.Manifest, now []byte) bool {
	return from == nil && in.stateDirInUse() == in.Store.Dir && strings.HasPrefix(string(now), fileHeader)
}
