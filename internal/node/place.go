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

// describePlace describes a path on the node. A relative path is resolved against "/",
// which is the working directory of services.
func (r *fileReader) describePlace(p string) Place {
	if p == "" {
		return Place{}
	}
	p = path.Join("/", p)
	return Place{Path: p, Type: r.placeType(p), Fixed: r.notWritableReason(r.existing(p))}
}

func (r *fileReader) placeType(p string) FileType {
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

// existing returns the part of a path that exists, without symlinks.
func (r *fileReader) existing(p string) string {
	for at := p; ; at = path.Dir(at) {
		if real, err := r.fs().EvalSymlinks(at); err == nil || at == "/" {
			return cmp.Or(real, "/")
		}
	}
}

// notWritableReason returns why files at an existing path cannot be written, or "" if
// they can. It ignores permissions, because an installer runs as root.
func (r *fileReader) notWritableReason(existing string) string {
	err := r.fs().WritableError(existing)
	if err == nil || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return fmt.Sprintf("%s: %s", existing, regularfile.BareError(err))
}

// describeBinDir describes a directory of executables.
func (r *fileReader) describeBinDir(p string) Place {
	out := r.describePlace(p)
	if out.Fixed == "" && p != "" {
		if existing := r.existing(out.Path); r.fs().IsNoExec(existing) {
			out.Fixed = existing + " is mounted noexec"
		}
	}
	return out
}

// providerFlags returns the credential provider flags of a command line.
func (r *fileReader) providerFlags(args []commandWord) Flags {
	given := findFlags(args, configFlag, binDirFlag)
	return Flags{
		Config: Flag{r.describePlace(lastValue(given[configFlag], "")), given[configFlag]},
		BinDir: Flag{r.describeBinDir(lastValue(given[binDirFlag], "")), given[binDirFlag]},
	}
}
