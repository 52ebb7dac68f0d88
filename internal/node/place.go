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

// place looks at a path of the node. One that is relative begins at "/", the
// working directory of a service.
func (r *reading) place(p string) Place {
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

func (r *reading) placeType(p string) PlaceType {
	info, err := r.node.files().Stat(p)
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

// resolve returns a path without links, as far as it exists, and the part that does.
func (r *reading) resolve(p string) (real, existing string) {
	rest := ""
	for at := p; ; at = path.Dir(at) {
		if real, err := r.node.files().Real(at); err == nil {
			return path.Join(real, rest), real
		}
		if at == "/" {
			return p, "/"
		}
		rest = path.Join(path.Base(at), rest)
	}
}

// fixed says why nothing can be written at a path that exists; "" if nothing is
// known against it. Permissions are no reason: an installer is root.
func (r *reading) fixed(existing string) string {
	err := r.node.files().Refusal(existing)
	if err == nil || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return fmt.Sprintf("%s: %s", existing, regularfile.Cause(err))
}

// binDir is place for a directory of executables.
func (r *reading) binDir(p string) Place {
	out := r.place(p)
	if out.Fixed == "" && p != "" {
		if _, existing := r.resolve(out.Path); r.node.files().NoExec(existing) {
			out.Fixed = existing + " is mounted noexec"
		}
	}
	return out
}

// owner says who replaces what is at a path; "" if nobody is known to.
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
