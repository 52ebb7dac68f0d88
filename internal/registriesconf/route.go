// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registriesconf

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/route"
)

// dockerHub is the registry of Docker Hub images.
const dockerHub = "registry-1.docker.io"

// Route returns the hosts that the runtime queries for an image. The kubelet treats a
// short name as an image on Docker Hub but passes it unchanged to CRI-O, which may
// search other registries.
func (c *Config) Route(image route.Image) *route.Route {
	r := &route.Route{Runtime: c.Runtime, Repository: image.Repository, Files: slices.Clone(c.Files), Hops: []route.Hop{}}
	if b := c.Rejection; b != nil {
		r.FailureReason = fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Message)
		return r
	}
	r.Findings = c.Check()
	if !domainPattern.MatchString(image.Host) {
		r.FailureReason = fmt.Sprintf("%s does not accept the host %q in an image name", c.Runtime, image.Host)
		return r
	}
	names, why := c.resolveShortName(image)
	for _, name := range names {
		hops, err := c.endpointHops(name)
		if err != nil {
			why = err.Error()
			continue
		}
		for i := range hops {
			hops[i].IsOrigin = hops[i].IsOrigin && name.Host == image.Host // a short name may resolve to another host
		}
		r.Hops = append(r.Hops, hops...)
	}
	if !slices.ContainsFunc(r.Hops, func(h route.Hop) bool { return !h.SkippedForLayers }) {
		r.FailureReason = cmp.Or(why, "every host for this image is blocked")
		return r
	}
	for i := range r.Hops {
		if f := c.missingCredentialFinding(r, &r.Hops[i], image.Host); f != nil {
			r.Findings = append(r.Findings, *f)
		}
	}
	return r
}

// missingCredentialFinding reports a mirror that gets no credential, because the kubelet's
// credential is for another host. It returns nil if the mirror gets one.
func (c *Config) missingCredentialFinding(r *route.Route, h *route.Hop, host string) *finding.Finding {
	if h.SkippedForLayers || h.Credential != route.CredentialNone || h.File == "" {
		return nil
	}
	f := &finding.Finding{Rule: "mirror-no-login", Severity: finding.SeverityWarning, File: h.File, Line: h.Line}
	f.Message = fmt.Sprintf("images from %s are pulled from %s, for which %s has no credential: credentials from pull secrets and providers are sent only to %s", host, h.Base.Host, c.Runtime, host)
	if slices.ContainsFunc(r.Hops, func(h route.Hop) bool { return h.IsOrigin && !h.SkippedForLayers }) {
		f.Severity = finding.SeverityInfo // the runtime falls back to the host itself
	}
	f.Fix = fmt.Sprintf("if the mirror requires a credential, add one for %s to %s", h.Base.Host, c.credentialFile())
	return f
}

// credentialFile returns the file in which to add the runtime's own credentials.
func (c *Config) credentialFile() string {
	if name := c.globalAuthFile(); name != "" && c.Runtime == CRIO {
		return name + " (its global_auth_file)"
	}
	return path.Join(c.opts.Home, ".config/containers/auth.json")
}

// resolveShortName returns the images that a short name may resolve to.
func (c *Config) resolveShortName(image route.Image) (names []route.Image, why string) {
	if !image.HasNoHost || c.Runtime != CRIO {
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
	for _, host := range c.searchRegistries {
		full(host + "/" + short)
	}
	return names, fmt.Sprintf("%q is a short name, but unqualified-search-registries is empty", short)
}

// findRegistry returns the table with the longest matching prefix. Source: FindRegistry in c/image.
func (c *Config) findRegistry(name string) *registry {
	var found *registry
	for i := range c.registries {
		r := &c.registries[i]
		if matchLength(name, r.Prefix) < 0 {
			continue
		}
		// Of two prefixes with the same length, c/image takes the first in alphabetical order.
		if found == nil || cmp.Or(cmp.Compare(len(r.Prefix), len(found.Prefix)), cmp.Compare(found.Prefix, r.Prefix)) > 0 {
			found = r
		}
	}
	return found
}

// matchLength returns the length of the part of ref that prefix matches, or -1 if prefix does not
// match. A match must end at the end of a name component.
func matchLength(ref, prefix string) int {
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

// endpointHops returns the hosts that the runtime queries for an image: the mirrors in order, then
// the registry's own endpoint.
func (c *Config) endpointHops(image route.Image) ([]route.Hop, error) {
	r := c.findRegistry(image.Repository)
	if r == nil {
		h, err := c.newHop(image, endpoint{}, "")
		return []route.Hop{h}, err
	}
	var hops []route.Hop
	for _, m := range r.Mirror {
		h, err := c.newHop(image, m, r.Prefix)
		why := r.skipReason(m, image)
		if err != nil && why == "" {
			return nil, err
		}
		if why != "" {
			h.Skipped, h.SkippedForLayers, h.Credential = why, true, route.CredentialNone
		}
		if err == nil {
			hops = append(hops, h)
		}
	}
	own := r.endpoint
	own.file, own.line = r.file, r.line
	h, err := c.newHop(image, own, r.Prefix)
	return append(hops, h), err
}

// skipReason returns why a mirror is skipped for an image, or "".
func (r *registry) skipReason(m endpoint, image route.Image) string {
	switch {
	case image.Digest == "" && (r.Digests || m.Pull == "digest-only"):
		return "used only for digests"
	case image.Digest != "" && m.Pull == "tag-only":
		return "used only for tags"
	}
	return ""
}

// newHop returns the hop for an endpoint that serves the images under a prefix.
func (c *Config) newHop(image route.Image, e endpoint, prefix string) (route.Hop, error) {
	there := image
	if e.Location != "" {
		name := e.Location + image.String()[matchLength(image.String(), prefix):]
		var err error
		if there, err = route.Parse(name); err != nil || !strings.HasPrefix(name, there.Repository) || !domainPattern.MatchString(there.Host) {
			return route.Hop{}, fmt.Errorf("%s:%d: with the location %q, the image would be %q, which is not a valid reference", e.file, e.line, route.RedactAddress(e.Location), route.RedactAddress(name))
		}
	}
	host := there.Host
	if host == "docker.io" {
		host = dockerHub
	}
	h := route.NewHop("https", host, "/v2", there.Path)
	h.IsOrigin = there.Host == image.Host
	h.File, h.Line = e.file, e.line
	h.SkipVerify, h.TriesHTTPSFirst = e.Insecure, e.Insecure
	h.CredentialFile, h.CredentialLine = c.authFileFor(there.Repository, image.Repository)
	switch {
	case h.IsOrigin:
	case h.CredentialFile != "":
		h.Credential = route.CredentialRuntime
	default:
		h.Credential = route.CredentialNone
	}
	if at := c.findRegistry(there.Repository); at != nil && at.Blocked {
		h.Skipped, h.SkippedForLayers, h.Credential = "blocked", true, route.CredentialNone
	}
	c.setCertificates(&h, there.Host)
	return h, nil
}

// setCertificates sets the certificates for a host from the first directory that exists.
func (c *Config) setCertificates(h *route.Hop, host string) {
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
				h.ClientCertificates = append(h.ClientCertificates, [2]string{name, base + ".key"})
				if _, err := c.opts.fs().Stat(base + ".key"); err != nil {
					h.Skipped, h.SkippedForLayers, h.Credential = name+" has no "+path.Base(base)+".key next to it", true, route.CredentialNone
				}
			}
		}
		return
	}
}
