// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/route"
)

// Origin says whether images of a host may be asked of that host itself, by the
// version of the runtime or, if that is not known, by any that reads such files,
// and why: "" if it never is.
func (r *Runtime) Origin(host string) string {
	image := route.Image{Repository: host + "/image", Host: host, Path: "image", Tag: "latest"}
	for _, v := range r.Releases() {
		if why := r.relative(v); why != "" {
			return why
		}
		w := r.RouteOf(image, v)
		if w.Fails != "" {
			continue // nobody is asked
		}
		for i := range w.Hops {
			if h := &w.Hops[i]; h.Origin || h.Base.Host == "" {
				return cmp.Or(r.why(host, v), r.named(h, i == len(w.Hops)-1))
			}
		}
	}
	return ""
}

// relative says that a directory is another one for another process.
func (r *Runtime) relative(v Version) string {
	certs := r.registry(v).certs
	if i := slices.IndexFunc(certs, func(dir string) bool { return !filepath.IsAbs(dir) }); i >= 0 {
		return fmt.Sprintf("config_path in %s contains %q, which is not an absolute path", r.File, certs[i])
	}
	return ""
}

// why says what of the hosts.toml leads to the host itself.
func (r *Runtime) why(host string, v Version) string {
	reg := r.registry(v)
	if len(reg.certs) == 0 {
		return fmt.Sprintf("%s does not set config_path, so no hosts.toml is read", r.File)
	}
	dir, err := r.hostDir(reg.certs, host)
	if err != nil {
		return err.Error()
	}
	if dir == "" {
		return fmt.Sprintf("%s has no directory for this host", strings.Join(reg.certs, ", "))
	}
	h, err := r.readHosts(dir, v)
	switch {
	case err != nil:
		return err.Error()
	case h.file == nil:
		return fmt.Sprintf("%s has no hosts.toml, so only the host itself is queried", dir)
	case h.broken != nil:
		return fmt.Sprintf("%s: %v, so %s ignores the file and queries only the host itself", h.path, h.broken, forVersion(r, v))
	case len(reg.certs) > 1 && v.oneRoot() && reg.transfer:
		return fmt.Sprintf("config_path in %s lists %d directories, so containerd 2.1.0 to 2.4.2 does not read any hosts.toml", r.File, len(reg.certs))
	}
	return ""
}

// forVersion names a version that is known, or one of several.
func forVersion(r *Runtime, v Version) string {
	if r.Version.Known() {
		return "containerd " + v.String()
	}
	return "containerd " + v.String() + " (and possibly others)"
}

// named says how a file leads to the host itself.
func (r *Runtime) named(h *route.Hop, last bool) string {
	switch {
	case h.Line == 0 && last:
		return fmt.Sprintf("%s does not set server, so the host itself is queried last", h.File)
	case last:
		return fmt.Sprintf("%s sets this host as the server", h.File)
	}
	return fmt.Sprintf("%s has a host table for this host", h.File)
}
