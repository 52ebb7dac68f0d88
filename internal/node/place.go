// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/regcred/regcred/internal/regularfile"
)

// describePath describes a path on the node.
func (r *fileReader) describePath(p string) PathStatus {
	if p == "" {
		return PathStatus{}
	}
	p = r.absolutePath(p)
	return PathStatus{Path: p, Type: r.fileType(p), Fixed: r.notWritableReason(r.existingPrefix(p))}
}

func (r *fileReader) fileType(p string) FileType {
	info, err := r.fs().Stat(p)
	r.recordUnreadable(p, err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return TypeAbsent
	case err != nil:
		return TypeUnknown
	case info.IsDir():
		return TypeDirectory
	case info.Mode().IsRegular():
		return TypeFile
	}
	return TypeOther
}

// existingPrefix returns the longest existing prefix of a path, with symlinks resolved.
func (r *fileReader) existingPrefix(p string) string {
	for at := p; ; at = path.Dir(at) {
		if real, err := r.fs().EvalSymlinks(at); err == nil || at == "/" {
			return cmp.Or(real, "/")
		}
	}
}

// notWritableReason returns why files at an existing path cannot be written, or "" if they can.
// It ignores missing permissions, because an installer runs as root.
func (r *fileReader) notWritableReason(existing string) string {
	err := r.fs().WritableError(existing)
	if err == nil || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return fmt.Sprintf("%s: %s", existing, regularfile.BareError(err))
}

// absolutePath returns a path in a kubelet flag, resolved against the service's working directory.
func (r *fileReader) absolutePath(p string) string {
	switch {
	case path.IsAbs(p):
		return path.Clean(p)
	case r.service != nil && r.service.unit != nil:
		return path.Join(r.service.unit.workDir(), p)
	}
	return path.Join("/", p)
}

// describeBinDir describes a plugin directory. It also checks whether the file system is
// mounted noexec.
func (r *fileReader) describeBinDir(p string) PathStatus {
	out := r.describePath(p)
	if out.Fixed == "" && p != "" {
		if existing := r.existingPrefix(out.Path); r.fs().IsNoExec(existing) {
			out.Fixed = existing + " is mounted noexec"
		} else if r.service != nil && r.service.unit != nil {
			out.Fixed = r.service.unit.noExecReason(out.Path)
		}
	}
	return out
}

// providerFlags returns the credential provider flags in a command line, and describes their
// paths.
func (r *fileReader) providerFlags(args []commandWord) Flags {
	given := findFlags(args, configFlag, binDirFlag)
	return Flags{
		Config: Flag{r.describePath(lastValue(given[configFlag], "")), given[configFlag]},
		BinDir: Flag{r.describeBinDir(lastValue(given[binDirFlag], "")), given[binDirFlag]},
	}
}
