// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registriesconf

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/route"
)

// hub is the registry of Docker Hub images.
const hub = "registry-1.docker.io"

// Route returns the hosts that the runtime queries for an image. The kubelet treats a
// short name as an image on Docker Hub but passes it unchanged to CRI-O, which may
// search other registries.
func (c *Config) Route(image route.Image) *route.Route {
	r := &route.Route{Runtime: c.Runtime, Repository: image.Repository, Files: slices.Clone(c.Files), Hops: []route.Hop{}}
	if b := c.Broken; b != nil {
		r.Fails = fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Message)
		return r
	}
	r.Findings = c.Check()
	names, why := c.names(image)
	for _, name := range names {
		hops, err := c.hops(name)
		if err != nil {
			why = err.Error()
			continue
		}
		for i := range hops {
			hops[i].Origin = hops[i].Origin && name.Host == image.Host // a short name may resolve to another host
		}
		r.Hops = append(r.Hops, hops...)
	}
	silent := func(h route.Hop) bool { return h.Silent }
	if why == "" && !slices.ContainsFunc(r.Hops, func(h route.Hop) bool { return !silent(h) }) {
		why = "every host for this image is blocked"
	}
	if len(r.Hops) == 0 || slices.IndexFunc(r.Hops, func(h route.Hop) bool { return !silent(h) }) < 0 {
		r.Fails = why
		return r
	}
	for i := range r.Hops {
		if f := c.withoutLogin(r, &r.Hops[i], image.Host); f != nil {
			r.Findings = append(r.Findings, *f)
		}
	}
	return r
}

// withoutLogin reports a mirror that gets no credential because the kubelet's
// credential is for another host. It returns nil if there is no such problem.
func (c *Config) withoutLogin(r *route.Route, h *route.Hop, host string) *finding.Finding {
	if h.Silent || h.Shown != route.ShownNone || h.File == "" {
		return nil
	}
	f := &finding.Finding{Rule: "mirror-no-login", Severity: finding.SeverityWarning, File: h.File, Line: h.Line}
	f.Message = fmt.Sprintf("images from %s are pulled from %s, for which %s has no credential: credentials from pull secrets and providers are sent only to %s", host, h.Base.Host, c.Runtime, host)
	if slices.ContainsFunc(r.Hops, func(h route.Hop) bool { return h.Origin && !h.Silent }) {
		f.Severity = finding.SeverityInfo // the runtime falls back to the host itself
	}
	f.Fix = fmt.Sprintf("if the mirror requires a credential, add one for %s to %s", h.Base.Host, c.loginFile())
	return f
}

// loginFile returns the file in which to add the runtime's own credentials.
func (c *Config) loginFile() string {
	if name := c.globalAuth(); name != "" && c.Runtime == CRIO {
		return name + " (its global_auth_file)"
	}
	return path.Join(c.opts.Home, ".config/containers/auth.json")
}

// names returns the images that a short name may resolve to.
func (c *Config) names(image route.Image) (names []route.Image, why string) {
	if !image.Short || c.Runtime != CRIO {
		return []route.Image{image}, ""
	}
	short := strings.TrimPrefix(strings.TrimPrefix(image.Repository, "docker.io/"), "library/")
	full := func(name string) {
		if i, err := route.Parse(name + strings.TrimPrefix(image.String(), image.Repository)); err == nil {
			names = append(names, i)
		}
	}
	if alias, ok := c.aliases[short]; ok {
		full(alias)
		return names, "the alias for the short name " + short + " is not an image"
	}
	for _, host := range c.search {
		full(host + "/" + short)
	}
	return names, fmt.Sprintf("%q is a short name, but unqualified-search-registries is empty", short)
}

// find returns the table with the longest matching prefix. c/image: FindRegistry.
func (c *Config) find(name string) *registry {
	var found *registry
	for i := range c.registries {
		if r := &c.registries[i]; matching(name, r.Prefix) >= 0 && (found == nil || len(r.Prefix) > len(found.Prefix)) {
			found = r
		}
	}
	return found
}

// matching returns the length of a prefix that matches a reference, or -1. A match must
// end at the end of a name component.
func matching(ref, prefix string) int {
	end := len(prefix)
	if strings.HasPrefix(prefix, "*.") {
		at := strings.Index(ref, prefix[1:])
		if at < 0 || strings.Contains(ref[:at], "/") {
			return -1
		}
		end = at + len(prefix) - 1
	} else if !strings.HasPrefix(ref, prefix) {
		return -1
	}
	if end == len(ref) || strings.ContainsAny(ref[end:end+1], ":/@") {
		return end
	}
	return -1
}

// hops returns an image's endpoints in order.
func (c *Config) hops(image route.Image) ([]route.Hop, error) {
	r := c.find(image.Repository)
	if r == nil {
		h, err := c.hop(image, endpoint{}, "")
		return []route.Hop{h}, err
	}
	var hops []route.Hop
	for _, m := range r.Mirror {
		h, err := c.hop(image, m, r.Prefix)
		why := r.skips(m, image)
		if err != nil && why == "" {
			return nil, err
		}
		if why != "" {
			h.Skipped, h.Silent, h.Shown = why, true, route.ShownNone
		}
		if err == nil {
			hops = append(hops, h)
		}
	}
	own := r.endpoint
	own.file, own.line = r.file, r.line
	h, err := c.hop(image, own, r.Prefix)
	return append(hops, h), err
}

// skips returns why a mirror is skipped for an image, or "".
func (r *registry) skips(m endpoint, image route.Image) string {
	switch {
	case image.Digest == "" && (r.Digests || m.Pull == "digest-only"):
		return "used only for digests"
	case image.Digest != "" && m.Pull == "tag-only":
		return "used only for tags"
	}
	return ""
}

// hop returns the hop for an endpoint that serves the images under a prefix.
func (c *Config) hop(image route.Image, e endpoint, prefix string) (route.Hop, error) {
	there := image
	if e.Location != "" {
		name := e.Location + image.String()[matching(image.String(), prefix):]
		var err error
		if there, err = route.Parse(name); err != nil || !strings.HasPrefix(name, there.Repository) {
			return route.Hop{}, fmt.Errorf("%s:%d: with the location %q, the image would be %q, which is not a valid reference", e.file, e.line, route.Masked(e.Location), route.Masked(name))
		}
	}
	host := there.Host
	if host == "docker.io" {
		host = hub
	}
	h := route.NewHop("https", host, "/v2", there.Path)
	h.Origin = there.Host == image.Host
	h.File, h.Line = e.file, e.line
	h.SkipVerify, h.HTTPToo = e.Insecure, e.Insecure
	h.OwnFile = c.login(there.Repository)
	switch {
	case h.Origin:
	case h.OwnFile != "":
		h.Shown = route.ShownOwn
	default:
		h.Shown = route.ShownNone
	}
	if at := c.find(there.Repository); at != nil && at.Blocked {
		h.Skipped, h.Silent, h.Shown = "blocked", true, route.ShownNone
	}
	c.certificates(&h, there.Host)
	return h, nil
}

// certificates sets the certificates from the first directory for a host.
func (c *Config) certificates(h *route.Hop, host string) {
	for _, dir := range []string{path.Join(c.opts.Home, ".config/containers/certs.d"), "/etc/containers/certs.d", "/etc/docker/certs.d"} {
		dir = path.Join(dir, host)
		entries, err := c.opts.fs().ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if strings.HasSuffix(name, ".crt") {
				h.CA = append(h.CA, name)
			}
			if base, ok := strings.CutSuffix(name, ".cert"); ok {
				h.Client = append(h.Client, [2]string{name, base + ".key"})
				if _, err := c.opts.fs().Stat(base + ".key"); err != nil {
					h.Skipped, h.Silent, h.Shown = name+" has no "+path.Base(base)+".key next to it", true, route.ShownNone
				}
			}
		}
		return
	}
}
