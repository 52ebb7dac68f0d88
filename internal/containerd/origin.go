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

// OriginQueryReason returns why containerd may query the original registry for images of host. It
// returns "" if containerd never does. If the version is unknown, it returns "" only if no possible
// release would query the registry. The result decides whether a cloud's credential is sent only to
// the cloud's mirror.
func (r *Runtime) OriginQueryReason(host string) string {
	image := route.Image{Repository: host + "/image", Host: host, Path: "image", Tag: "latest"}
	for _, v := range r.originCheckVersions() {
		if why := r.relativePathReason(v); why != "" {
			return why
		}
		w := r.RouteFor(image, v)
		if w.FailureReason != "" {
			continue // no host is queried
		}
		for i := range w.Hops {
			if h := &w.Hops[i]; h.IsOrigin || h.Base.Host == "" {
				return cmp.Or(r.originHopReason(host, v), describeOriginHop(h, i == len(w.Hops)-1))
			}
		}
	}
	return ""
}

// originCheckVersions returns the releases that OriginQueryReason checks. If the version is
// unknown, it returns one release for each different behavior.
func (r *Runtime) originCheckVersions() []Version {
	if r.Version.IsKnown() {
		return []Version{r.Version}
	}
	list := []Version{{2, 4, 2}, newestVersion()}
	if r.format < 4 {
		list = slices.Insert(list, 0, Version{2, 0, 0})
	}
	if r.format <= 2 {
		list = slices.Insert(list, 0, Version{1, 6, 20})
	}
	return list
}

// relativePathReason returns an explanation if config_path is relative. The path then depends on
// containerd's working directory.
func (r *Runtime) relativePathReason(v Version) string {
	certs := r.decodeRegistry(v).configPaths
	if i := slices.IndexFunc(certs, func(dir string) bool { return !filepath.IsAbs(dir) }); i >= 0 {
		return fmt.Sprintf("config_path in %s contains %q, which is not an absolute path", r.File, certs[i])
	}
	return ""
}

// originHopReason returns why the settings for a host make containerd query the host itself. It
// returns "" if the reason is in the content of the hosts.toml.
func (r *Runtime) originHopReason(host string, v Version) string {
	reg := r.decodeRegistry(v)
	if len(reg.configPaths) == 0 {
		return fmt.Sprintf("%s does not set config_path, so no hosts.toml is read", r.File)
	}
	dir, err := r.hostDir(reg.configPaths, host)
	if err != nil {
		return err.Error()
	}
	if dir == "" {
		return fmt.Sprintf("%s has no directory for this host", strings.Join(reg.configPaths, ", "))
	}
	h, err := r.readHosts(dir, v)
	switch {
	case err != nil:
		return err.Error()
	case h.file == nil:
		return fmt.Sprintf("%s has no hosts.toml, so only the host itself is queried", dir)
	case h.parseError != nil:
		return fmt.Sprintf("%s: %v, so containerd %v ignores the file and queries only the host itself", h.path, h.parseError, v)
	case reg.treatsListAsOneDir(v):
		return fmt.Sprintf("config_path in %s lists %d directories, so containerd 2.1.0 to 2.4.2 does not read any hosts.toml", r.File, len(reg.configPaths))
	}
	return ""
}

// describeOriginHop describes the part of a hosts.toml that refers to the host itself.
func describeOriginHop(h *route.Hop, last bool) string {
	switch {
	case h.Line == 0 && last:
		return fmt.Sprintf("%s does not set server, so the host itself is queried last", h.File)
	case last:
		return fmt.Sprintf("%s sets this host as the server", h.File)
	}
	return fmt.Sprintf("%s has a host table for this host", h.File)
}
