// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/cloudplugin"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/registriesconf"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/match"
)

// mirrors are what a runtime's files say about the images of several hosts.
type mirrors interface {
	Hosts() []string // of images that have settings of their own
	Route(route.Image) *route.Route
	Check() []finding.Finding
}

// Mirrors checks what the files of the node's runtime do with the credentials of a
// configuration. It says nothing where there is no runtime.
func (r *Report) Mirrors(runtime *Runtime, cfg *config.Config) {
	const check = "mirrors"
	r.checkRanchers(inroot.FS{Root: runtime.node.Root})
	all, err := runtime.mirrors()
	if err != nil {
		r.Add(check, Warn, "", "the runtime's mirror configuration is unknown: %v", err)
		return
	}
	for _, m := range all {
		r.checkMirrored(m, cfg)
	}
}

func (r *Report) checkMirrored(m mirrors, cfg *config.Config) {
	before := len(r.Checks)
	for _, f := range m.Check() {
		if f.Severity != finding.SeverityInfo {
			r.found(f)
		}
	}
	var said []string
	for _, host := range m.Hosts() {
		image, err := route.Parse(host + "/library/image")
		if err != nil {
			continue
		}
		way := m.Route(image)
		way.Repository = host
		if way.Fails != "" && len(r.Checks) == before {
			r.Add("mirrors", Fail, "", "%s", way)
			continue
		}
		said = append(said, way.String())
		for i := range way.Hops {
			r.checkHop(way, &way.Hops[i], host, cfg)
		}
		r.checkFallback(way, host, cfg)
	}
	r.checkDefault(m, cfg)
	if len(r.Checks) == before {
		for _, text := range said {
			r.Add("mirrors", OK, "", "%s", text)
		}
	}
}

// found adds a finding about a file.
func (r *Report) found(f finding.Finding) {
	r.Add("mirrors", Result(f.Severity), f.Fix, "%s: %s [%s]", at(f.File, f.Line), f.Message, f.Rule)
}

// at is a place in a file.
func at(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// serving names the providers that have a pattern for images of a host.
func serving(cfg *config.Config, host string) (names []string) {
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		if slices.ContainsFunc(p.MatchImages, func(pattern string) bool { return reaches(pattern, host) }) {
			names = append(names, p.Name)
		}
	}
	return names
}

// reaches reports whether a pattern matches images of a host, whatever their path.
func reaches(pattern, host string) bool {
	p, err := match.Parse(cloudplugin.Host(pattern))
	return err == nil && p.Match(host+"/image")
}

// checkHop is about a host that is asked for the images of another.
func (r *Report) checkHop(way *route.Route, h *route.Hop, host string, cfg *config.Config) {
	if h.Silent {
		return
	}
	there, providers, place := h.Base.Host, serving(cfg, host), at(h.File, h.Line)
	if h.Base.Scheme == "http" && !h.HTTPToo && len(providers) > 0 && h.Shown == route.ShownKubelets && !isLoopback(there) && h.File != "" {
		r.Add("mirrors", Warn, "use https:// there", "%s: %s is queried without TLS for images from %s: anyone on the network path can read the credential returned by %s [mirror-plain-http]", place, there, host, strings.Join(providers, ", "))
	}
	if h.OwnFile != "" && way.Runtime == "containerd" && len(providers) > 0 {
		r.Add("mirrors", Warn, "", "%s has a password for %s, but this password is not used for images from %s, because the kubelet sends the credential from %s instead [mirror-own-login]", h.OwnFile, there, host, strings.Join(providers, ", "))
	}
	if h.Origin || len(providers) > 0 {
		return
	}
	if owners := serving(cfg, there); len(owners) > 0 {
		if h.Shown == route.ShownNone || h.Shown == route.ShownOwn {
			r.Add("mirrors", Warn, "put a credential for "+there+" into the runtime's own files", "%s: images in %s are pulled from %s, which matches a pattern of %s, but %s does not send the kubelet's credentials to mirrors [mirror-unserved]",
				place, host, there, strings.Join(owners, ", "), way.Runtime)
			return
		}
		r.Add("mirrors", Warn, fmt.Sprintf("add %q to the provider's matchImages, and make the plugin return credentials for this host (see --mirror in docs/plugins/README.md)", host),
			"%s: images in %s are pulled from %s, which matches a pattern of %s, but the kubelet matches the image's original name, so %s gets no credential [mirror-unserved]",
			place, host, there, strings.Join(owners, ", "), there)
	}
}

// checkFallback is about the credential of a cloud for images that its mirror has,
// which their own host is shown if that mirror fails.
func (r *Report) checkFallback(way *route.Route, host string, cfg *config.Config) {
	origin := slices.IndexFunc(way.Hops, func(h route.Hop) bool { return h.Origin && !h.Silent && h.Shown != route.ShownNone })
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		cloud := cloudplugin.Named(p.Name)
		if cloud == nil || cloud.Reach(host) == cloudplugin.Own || !slices.Contains(serving(cfg, host), p.Name) {
			continue
		}
		of := slices.IndexFunc(way.Hops, func(h route.Hop) bool { return !h.Origin && cloud.Reach(h.Base.Host) == cloudplugin.Own })
		maps := slices.ContainsFunc(cloud.Mirrors(p.Arguments()), func(m cloudplugin.Mirror) bool { return m.Host == host })
		if way.Runtime != "containerd" && maps {
			r.Add("mirrors", Warn, "put the mirror's credential into the runtime's own files", "%s maps %s to a registry of %s, but %s sends the credential only to %s, never to a mirror [mirror-lost]", p.Name, host, cloud.Owner, way.Runtime, host)
			continue
		}
		if of >= 0 && !maps && way.Hops[of].Shown == route.ShownKubelets {
			h := &way.Hops[of]
			r.Add("mirrors", Warn, fmt.Sprintf("add %s to the provider's args", mapping(cloud, host, h)), "%s: images in %s are pulled from %s, but %s has no --mirror for this host: the plugin is called with an image in %s, for which %s issues no credential [mirror-untold]",
				at(h.File, h.Line), host, h.Base.Host, p.Name, host, cloud.Owner)
			continue
		}
		if said := cloudplugin.Flag(p.Arguments(), "--mirror-origin"); of < 0 || origin < 0 || len(said) > 0 {
			continue // of what is said, checkMirrors sees to it
		}
		h := &way.Hops[of]
		r.Add("mirrors", Warn, fmt.Sprintf("put %s at the top of %s, so that %s is never queried", server(h), h.File, host), "%s: if %s fails, %s is queried and gets the credential for %s from %s [mirror-fallback]", at(h.File, h.Line), h.Base.Host, host, cloud.Owner, p.Name)
	}
}

// mapping is the argument that tells a cloud's plugin of a mirror.
func mapping(cloud *cloudplugin.Plugin, host string, h *route.Hop) string {
	if cloud.Cloud == cloudplugin.Azure {
		return fmt.Sprintf("--registry-mirror=%s:%s", host, h.Base.Host)
	}
	below := strings.Trim(strings.TrimPrefix(strings.TrimSuffix(h.Base.Path, "/"), "/v2"), "/")
	return strings.TrimSuffix(fmt.Sprintf("--mirror=%s=%s/%s", host, h.Base.Host, below), "/")
}

// server is what a hosts.toml has for a mirror to be asked in the place of the host.
func server(h *route.Hop) string {
	base := strings.TrimSuffix(h.URL, "/")
	short, added := strings.CutSuffix(base, "/v2")
	switch {
	case h.Base.Path == "/v2/":
		return fmt.Sprintf("server = %q", short)
	case added && !strings.Contains(short+"/", "/v2/"):
		return fmt.Sprintf("server = %q", base)
	case added:
		base = short
	}
	return fmt.Sprintf("server = %q, and override_path = true below it,", base)
}

// checkDefault is about a host that is offered the credentials for all registries.
func (r *Report) checkDefault(m mirrors, cfg *config.Config) {
	if len(cfg.Providers) == 0 {
		return
	}
	for _, f := range m.Check() {
		if f.Rule == "mirror-default" {
			f.Message += fmt.Sprintf("; here, it receives the credentials from %s", terminal.Count(len(cfg.Providers), "provider"))
			f.Severity = finding.SeverityWarning
			r.found(f)
		}
	}
}

// mirrors reads the files of the runtime, or of each that there may be.
func (r *Runtime) mirrors() (list []mirrors, err error) {
	found, err := r.containerds()
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		list = append(list, c)
	}
	c, err := r.registries()
	if c != nil {
		list = append(list, c)
	}
	return list, err
}

// registries are the registries.conf files of CRI-O; nil if that is not here.
func (r *Runtime) registries() (*registriesconf.Config, error) {
	const crio = registriesconf.CRIO
	switch {
	case r.found != nil && r.found.Name != crio:
		return nil, nil
	case r.found == nil && !(inroot.FS{Root: r.node.Root}).Exists("/etc/crio"):
		return nil, nil // nothing says that it is on this node
	}
	return registriesconf.Read(registriesconf.Options{Runtime: crio, Root: r.node.Root})
}
