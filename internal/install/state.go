// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/runstats"
)

// isOwnName reports whether a file name in the state directory belongs to regcred.
func isOwnName(name string) bool {
	names := []string{"current", "generations", generation.DispatcherName, generation.AppliedFile, originalsFile, journalFile, kubeletDirName, reserveDir, existedFile}
	return slices.Contains(names, name) || inroot.IsTemporary(name)
}

// existedFile marks a state directory that existed before the install. An uninstall keeps it.
const existedFile = "directory-existed"

// HasState reports whether the state directory exists and belongs to regcred, possibly after a
// failed install.
func (in *Installer) HasState() bool {
	for _, name := range []string{"generations", generation.DispatcherName, generation.AppliedFile, originalsFile, journalFile} {
		if in.fs().Exists(in.Store.Path(name)) {
			return true
		}
	}
	list, err := in.fs().ReadDir(in.Store.Dir)
	return err == nil && (len(list) > 0 || in.Store.Dir == generation.DefaultDir) &&
		!slices.ContainsFunc(list, func(e fs.DirEntry) bool {
			return !inroot.IsTemporary(e.Name()) && e.Name() != reserveDir && e.Name() != existedFile
		})
}

// createStateDir creates the state directory. It marks an empty directory that exists.
func (in *Installer) createStateDir() error {
	err := in.fs().Mkdir(in.Store.Dir, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if list, err := in.fs().ReadDir(in.Store.Dir); err != nil || len(list) > 0 {
		return err
	}
	return in.fs().WriteFile(in.Store.Path(existedFile), strings.NewReader(""), inroot.FileAttr{Mode: 0o600})
}

// checkOrphaned returns an error if the kubelet uses regcred with another state directory, or
// with a state directory that was removed.
func (in *Installer) checkOrphaned() error {
	dir := in.stateDirInUse()
	switch {
	case dir == "":
		return nil
	case dir != in.Store.Dir:
		return withHint("--state-dir "+dir, "this node's kubelet uses regcred with the state directory %s", in.fs().HostPath(dir))
	case in.HasState():
		return nil // another process has installed regcred in the meantime
	}
	return withHint("run regcred install CONFIG --restart to restore the directory, then regcred uninstall --restart to remove it",
		"%s was removed, but this node's kubelet still refers to it and cannot restart without it", in.fs().HostPath(in.Store.Dir))
}

// checkStateDir returns an error if the state directory contains files that do not belong to
// regcred.
func (in *Installer) checkStateDir() error {
	list, err := in.fs().ReadDir(in.Store.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		if !in.HasState() || !isOwnName(e.Name()) {
			return withHint("--state-dir must be a new or empty directory",
				"%s is not a regcred state directory, because it contains %q", in.fs().HostPath(in.Store.Dir), e.Name())
		}
	}
	return nil
}

// removeState removes the node's plugin counts (package runstats) and the state directory. It
// keeps files that do not belong to regcred. It removes the journal and the mark of a directory
// that existed last.
func (in *Installer) removeState() error {
	if err := in.fs().RemoveAll(runstats.DefaultDir); err != nil {
		return err
	}
	list, err := in.fs().ReadDir(in.Store.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var foreign []string
	existed := false
	for _, e := range list {
		name := in.Store.Path(e.Name())
		switch {
		case e.Name() == journalFile:
		case e.Name() == existedFile:
			existed = true
		case !isOwnName(e.Name()), e.Name() == kubeletDirName && in.hasFiles(name):
			foreign = append(foreign, e.Name())
		default:
			if err := in.removeOwn(name); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(in.removeJournal(), in.fs().Remove(in.Store.Path(existedFile))); err != nil {
		return err
	}
	switch {
	case len(foreign) > 0:
		in.reportKept(in.Store.Dir, "it contains "+strings.Join(foreign, ", ")+", which regcred did not create")
		return nil
	case existed:
		return nil
	}
	err = in.fs().Remove(in.Store.Dir)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
		return nil // another program added a file in the meantime
	}
	if errors.Is(err, syscall.EBUSY) {
		in.reportKept(in.Store.Dir, "it is a mount point")
		return nil
	}
	return err
}

// removeOwn removes a file or directory of the state directory. If the directory of generations
// was moved and is now a symlink, removeOwn also removes the generations, which may contain
// secrets.
func (in *Installer) removeOwn(name string) error {
	if real, err := in.fs().EvalSymlinks(name); err == nil && path.Base(name) != "current" && in.isSymlink(name) {
		list, _ := in.fs().ReadDir(real)
		for _, e := range list {
			if name == in.Store.Path("generations") && (generation.IsTemporary(e.Name()) || generation.IsNumber(e.Name())) {
				if err := in.fs().RemoveAll(path.Join(real, e.Name())); err != nil {
					return err
				}
			}
		}
		in.reportKept(real, in.fs().HostPath(name)+" was a link to it")
	}
	err := in.fs().RemoveAll(name)
	if errors.Is(err, syscall.EBUSY) {
		in.reportKept(name, "it contains a mount point")
		return nil
	}
	return err
}

func (in *Installer) isSymlink(name string) bool {
	info, err := in.fs().Lstat(name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// reportKept reports that an uninstall leaves a file or directory in place.
func (in *Installer) reportKept(name, why string) {
	in.Left = append(in.Left, in.fs().HostPath(name))
	in.progressf("%s is kept, because %s", in.fs().HostPath(name), why)
}

// hasFiles reports whether a directory contains a regular file at any depth. It ignores
// symlinks. It also returns true if it cannot read a directory.
func (in *Installer) hasFiles(dir string) bool {
	list, err := in.fs().ReadDir(dir)
	return err != nil || slices.ContainsFunc(list, func(e fs.DirEntry) bool {
		return e.Type().IsRegular() || e.IsDir() && in.hasFiles(path.Join(dir, e.Name()))
	})
}

// dropInHeader is the first line of regcred's drop-ins.
const dropInHeader = "# Made by regcred install; regcred uninstall takes it away.\n"

// stateDirInUse returns the state directory that the kubelet uses. It finds the directory
// through the link to the dispatcher in the kubelet's bin dir, or through the bin dir that
// regcred's drop-in sets. It returns "" if the kubelet does not use regcred.
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

// dispatcherLinkNames returns the names of the links to the dispatcher in the kubelet's bin
// dir. Provider entries with these names belong to regcred. now is the content of the file with
// the entries.
func (in *Installer) dispatcherLinkNames(now []byte) (names []string) {
	list, err := in.fs().ReadDir(in.Setup.BinDir.Path)
	if in.salvaging || err != nil && in.stateDirInUse() == in.Store.Dir {
		names = entries.FindNames(now) // the links were in the state directory, which was removed, or may be gone
	}
	for _, e := range list {
		if target, err := in.fs().Readlink(path.Join(in.Setup.BinDir.Path, e.Name())); err == nil && target == in.Store.DispatcherPath() {
			names = append(names, e.Name())
		}
	}
	return names
}

// isFromRemovedState reports whether regcred wrote the content now, but its state directory no
// longer exists.
func (in *Installer) isFromRemovedState(from *generation.Manifest, now []byte) bool {
	return from == nil && in.stateDirInUse() == in.Store.Dir && strings.HasPrefix(string(now), dropInHeader)
}
