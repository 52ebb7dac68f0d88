// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/regcred/regcred/internal/regularfile"
)

// place describes a path of the node. A relative path is resolved against "/", the
// working directory of services.
func (r *reader) place(p string) Place {
	if p == "" {
		return Place{}
	}
	p = path.Join("/", p)
	out := Place{Path: p, Type: r.placeType(p), Owner: owner(p)}
	real, existing := r.resolve(p)
	if real != p {
		out.Real, out.Owner = real, owner(real)
	}
	out.Fixed = r.fixed(existing)
	return out
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

// resolve resolves the symlinks in the existing part of a path. It also returns that part.
func (r *reader) resolve(p string) (real, existing string) {
	rest := ""
	for at := p; ; at = path.Dir(at) {
		if real, err := r.fs().Real(at); err == nil {
			return path.Join(real, rest), real
		}
		if at == "/" {
			return p, "/"
		}
		rest = path.Join(path.Base(at), rest)
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
		if _, existing := r.resolve(out.Path); r.fs().NoExec(existing) {
			out.Fixed = existing + " is mounted noexec"
		}
	}
	return out
}

// owner returns what replaces a file; "" if nothing is known to.
func owner(p string) string {
	if strings.HasPrefix(p, "/usr/local/") {
		return ""
	}
	for _, dir := range []string{"/usr/", "/lib/", "/bin/", "/sbin/", "/snap/", "/nix/store/"} {
		if strings.HasPrefix(p+"/", dir) {
			return "the system's packages or image"
		}
	}
	return ""
}
