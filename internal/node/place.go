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

// place describes a path of the node. A relative path is resolved against "/", the
// working directory of services.
func (r *reader) place(p string) Place {
	if p == "" {
		return Place{}
	}
	p = path.Join("/", p)
	return Place{Path: p, Type: r.placeType(p), Fixed: r.fixed(r.existing(p))}
}

func (r *reader) placeType(p string) PlaceType {
	info, err := r.fs().Stat(p)
	r.note(p, err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Absent
	case err != nil:
		return Unknown
	case info.IsDir():
		return Directory
	case info.Mode().IsRegular():
		return File
	}
	return Other
}

// existing returns the part of a path that exists, without symlinks.
func (r *reader) existing(p string) string {
	for at := p; ; at = path.Dir(at) {
		if real, err := r.fs().Real(at); err == nil || at == "/" {
			return cmp.Or(real, "/")
		}
	}
}

// fixed returns why files at an existing path cannot be written; "" if they can.
// Permissions do not matter, because an installer is root.
func (r *reader) fixed(existing string) string {
	err := r.fs().Refusal(existing)
	if err == nil || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return fmt.Sprintf("%s: %s", existing, regularfile.Cause(err))
}

// binDir describes a directory of executables.
func (r *reader) binDir(p string) Place {
	out := r.place(p)
	if out.Fixed == "" && p != "" {
		if existing := r.existing(out.Path); r.fs().NoExec(existing) {
			out.Fixed = existing + " is mounted noexec"
		}
	}
	return out
}
