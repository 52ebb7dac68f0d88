// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/registriesyaml"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/match"
)

// checkMirrors checks how the runtime's mirror configuration affects the credentials of the
// providers.
func checkMirrors(ctx context.Context, w *Input, r *checkResults) {
	runtime := w.findRuntime(ctx)
	checkRegistriesYAML(r, inroot.FS{Root: runtime.node.Root})
	all, err := runtime.mirrorConfigs()
	if err != nil {
		r.addResult(finding.SeverityWarning, "", "the runtime's mirror configuration is unknown: %v", err)
		return
	}
	for _, m := range all {
		checkRuntimeMirrors(r, m, w.configOrEmpty())
	}
}

func checkRuntimeMirrors(r *checkResults, m mirrorConfig, cfg *config.Config) {
	before := len(r.list)
	var notes []finding.Finding
	for _, f := range m.Check() {
		switch {
		case f.Rule == containerd.RuleUnknownVersion:
			notes = append(notes, f)
		case f.Severity != finding.SeverityInfo:
			r.addFinding(f)
		}
	}
	var routes []string
	for _, host := range m.Hosts() {
		image, err := route.Parse(host + "/library/image")
		if err != nil {
			continue
		}
		way := m.Route(image)
		way.Repository = host
		if way.FailureReason != "" && len(r.list) == before {
			r.addResult(finding.SeverityError, "", "%s", way)
			continue
		}
		routes = append(routes, way.String())
		for i := range way.Hops {
			if h := &way.Hops[i]; !h.SkippedForLayers {
				mirrorHop{h, way.Runtime, host, providersForHost(cfg, host)}.checkHop(r, cfg)
			}
		}
		checkCloudMirrors(r, way, host, cfg)
	}
	checkDefaultHost(r, m, cfg)
	for _, f := range notes {
		r.addFinding(f)
	}
	if len(r.list) == before {
		for _, text := range routes {
			r.addResult(finding.SeverityOK, "", "%s", text)
		}
	}
}

// providersForHost returns the names of the providers with a pattern for images of a host.
func providersForHost(cfg *config.Config, host string) (names []string) {
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		if slices.ContainsFunc(p.MatchImages, func(pattern string) bool {
			parsed, err := match.Parse(registry.PatternHost(pattern))
			return err == nil && parsed.Match(host+"/image")
		}) {
			names = append(names, p.Name)
		}
	}
	return names
}

// mirrorHop is a host that the runtime queries for the images of another host.
type mirrorHop struct {
	*route.Hop
	runtime   string
	host      string   // registry host of the images
	providers []string // providers that match host
}

// addWarning adds a warning with the file and line that configure the hop.
func (h mirrorHop) addWarning(r *checkResults, rule, fix, format string, args ...any) {
	r.addFinding(finding.Finding{Rule: rule, Severity: finding.SeverityWarning, File: h.File, Line: h.Line, Message: fmt.Sprintf(format, args...), Fix: fix})
}

func (h mirrorHop) checkHop(r *checkResults, cfg *config.Config) {
	names := strings.Join(h.providers, ", ")
	if h.isPlainHTTP() && len(h.providers) > 0 {
		h.addWarning(r, "mirror-plain-http", "use https:// there",
			"%s is queried without TLS for images from %s: anyone on the network path can read the credential returned by %s", h.Base.Host, h.host, names)
	}
	if h.CredentialFile != "" && h.runtime == "containerd" && len(h.providers) > 0 {
		r.addFinding(finding.Finding{Rule: "mirror-own-login", Severity: finding.SeverityWarning, Message: fmt.Sprintf(
			"%s has a password for %s, but this password is not used for images from %s, because the kubelet sends the credential from %s instead", h.CredentialFile, h.Base.Host, h.host, names)})
	}
	if !h.IsOrigin && len(h.providers) == 0 {
		h.checkMirrorProviders(r, providersForHost(cfg, h.Base.Host))
	}
}

// isPlainHTTP reports whether the kubelet's credential is sent over the network in clear text.
func (h mirrorHop) isPlainHTTP() bool {
	return h.Base.Scheme == "http" && !h.TriesHTTPSFirst && h.Credential == route.CredentialKubelet && !isLoopback(h.Base.Host) && h.File != ""
}

// checkMirrorProviders warns about providers that match the mirror's host but not the image's
// host. The mirror gets no credential from them.
func (h mirrorHop) checkMirrorProviders(r *checkResults, owners []string) {
	const rule = "mirror-unserved"
	mirror, names := h.Base.Host, strings.Join(owners, ", ")
	switch {
	case len(owners) == 0:
	case h.Credential == route.CredentialNone || h.Credential == route.CredentialRuntime:
		h.addWarning(r, rule, "put a credential for "+mirror+" into the runtime's own files",
			"images in %s are pulled from %s, which matches a pattern of %s, but %s does not send the kubelet's credentials to mirrors", h.host, mirror, names, h.runtime)
	default:
		h.addWarning(r, rule, fmt.Sprintf("add %q to the provider's matchImages, and make the plugin return credentials for this host (see --mirror in docs/plugins/README.md)", h.host),
			"images in %s are pulled from %s, which matches a pattern of %s, but the kubelet matches the image's original name, so %s gets no credential", h.host, mirror, names, mirror)
	}
}

// checkCloudMirrors checks cloud plugins that match host although it is not a registry of
// their cloud.
func checkCloudMirrors(r *checkResults, way *route.Route, host string, cfg *config.Config) {
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		cloud := registry.CloudOfPlugin(p.Name)
		if cloud != nil && cloud.ClassifyPattern(host) != registry.ScopeOwn && slices.Contains(providersForHost(cfg, host), p.Name) {
			checkCloudMirror(r, way, host, p, cloud)
		}
	}
}

// checkCloudMirror warns about a cloud registry that mirrors host although the plugin has no
// --mirror flag for it. It also warns if host itself receives the cloud's credential when the
// mirror fails.
func checkCloudMirror(r *checkResults, way *route.Route, host string, p *config.Provider, cloud *registry.Cloud) {
	mapped := slices.ContainsFunc(cloud.MirrorArgs(p.Arguments()), func(m registry.MirrorArg) bool { return m.Host == host })
	if way.Runtime != "containerd" && mapped {
		r.addFinding(finding.Finding{
			Rule: "mirror-lost", Severity: finding.SeverityWarning, Fix: "put the mirror's credential into the runtime's own files",
			Message: fmt.Sprintf("%s maps %s to a registry of %s, but %s sends the credential only to %s, never to a mirror", p.Name, host, cloud.Owner, way.Runtime, host),
		})
		return
	}
	i := slices.IndexFunc(way.Hops, func(h route.Hop) bool { return !h.IsOrigin && cloud.ClassifyPattern(h.Base.Host) == registry.ScopeOwn })
	if i < 0 {
		return
	}
	mirror := mirrorHop{Hop: &way.Hops[i]}
	fallsBack := slices.ContainsFunc(way.Hops, func(h route.Hop) bool {
		return h.IsOrigin && !h.SkippedForLayers && h.Credential != route.CredentialNone
	})
	switch {
	case !mapped && mirror.Credential == route.CredentialKubelet:
		mirror.addWarning(r, "mirror-untold", fmt.Sprintf("add %s to the provider's args", mirrorArg(cloud, host, mirror.Hop)),
			"images in %s are pulled from %s, but %s has no --mirror for this host: the plugin is called with an image in %s, for which %s issues no credential",
			host, mirror.Base.Host, p.Name, host, cloud.Owner)
	case fallsBack && len(registry.FlagValues(p.Arguments(), "--mirror-origin")) == 0: // checkMirrorOrigin checks providers with this flag
		mirror.addWarning(r, "mirror-fallback", fmt.Sprintf("put %s at the top of %s, so that %s is never queried", serverLine(mirror.Hop), mirror.File, host),
			"if %s fails, %s is queried and gets the credential for %s from %s", mirror.Base.Host, host, cloud.Owner, p.Name)
	}
}

// mirrorArg returns the plugin argument that configures a mirror of host.
func mirrorArg(cloud *registry.Cloud, host string, h *route.Hop) string {
	if cloud.Name == registry.Azure {
		return fmt.Sprintf("--registry-mirror=%s:%s", host, h.Base.Host)
	}
	below := strings.Trim(strings.TrimPrefix(strings.TrimSuffix(h.Base.Path, "/"), "/v2"), "/")
	return strings.TrimSuffix(fmt.Sprintf("--mirror=%s=%s/%s", host, h.Base.Host, below), "/")
}

// serverLine returns the hosts.toml line that makes the mirror the server.
func serverLine(h *route.Hop) string {
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

// checkDefaultHost reports a host that receives the credentials of all registries.
func checkDefaultHost(r *checkResults, m mirrorConfig, cfg *config.Config) {
	if len(cfg.Providers) == 0 {
		return
	}
	for _, f := range m.Check() {
		if f.Rule == "mirror-default" {
			f.Message += fmt.Sprintf("; here, it receives the credentials from %s", terminal.FormatCount(len(cfg.Providers), "provider"))
			f.Severity = finding.SeverityWarning
			r.addFinding(f)
		}
	}
}

// checkMirrorOrigin checks providers with --mirror-origin=none. This flag states that
// the runtime never queries the mirrored registry itself. If that is wrong, the
// registry receives a cloud credential.
func checkMirrorOrigin(_ context.Context, w *Input, r *checkResults) {
	cfg := w.Config
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		values := registry.FlagValues(p.Arguments(), "--mirror-origin")
		cloud := registry.CloudOfPlugin(p.Name)
		if cloud == nil || len(values) == 0 || values[len(values)-1].Value != string(registry.OriginNone) {
			continue
		}
		var hosts []string
		for _, m := range cloud.MirrorArgs(p.Arguments()) {
			if m.Foreign && !slices.Contains(hosts, m.Host) {
				hosts = append(hosts, m.Host)
			}
		}
		for _, host := range hosts {
			checkOrigin(r, w.Node.Node, p.Name, host)
		}
	}
}

func checkOrigin(r *checkResults, n node.Node, provider, host string) {
	runtimes, err := findContainerd(n)
	if err != nil {
		r.addResult(finding.SeverityWarning, "make sure that the runtime never queries this host; CRI-O and podman do not send this credential to any other host",
			"%s has --mirror-origin=none for %s, but regcred cannot check here whether this is safe: %v", provider, host, err)
		return
	}
	for _, runtime := range runtimes {
		if why := runtime.OriginQueryReason(host); why != "" {
			r.addResult(finding.SeverityError, "in the host's hosts.toml, also set the mirror as the server (docs/plugins/README.md has an example for all versions)",
				"%s has --mirror-origin=none for %s, but containerd (%s) may send that host the credential: %s", provider, host, runtime.File, why)
			return
		}
	}
	r.addResult(finding.SeverityOK, "", "%s: containerd never queries %s itself", provider, host)
}

// findContainerd reads all containerd configurations of the node except Docker's,
// because it is not known which one serves the kubelet.
func findContainerd(n node.Node) (found []*containerd.Runtime, err error) {
	found, err = (&Runtime{node: n}).containerdRuntimes()
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("found no containerd configuration for a kubelet (looked for %s)", strings.Join(containerdConfigPaths(), ", "))
	}
	return found, err
}

// checkRegistriesYAML checks the registries.yaml of k3s and rke2, which generate
// containerd's configuration from it.
func checkRegistriesYAML(r *checkResults, root inroot.FS) {
	for _, c := range node.RuntimeConfigs() {
		product, path, made := c.Product, c.Registries, c.Containerd
		found, err := registriesyaml.Check(root, path, product)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			r.addResult(finding.SeverityWarning, "", "the %s registry configuration is unknown: %v", product, err)
			continue
		}
		written, writtenErr := root.Stat(made)
		changed, changedErr := root.Stat(path)
		if errors.Join(writtenErr, changedErr) == nil && written.ModTime().Before(changed.ModTime()) {
			found = append(found, finding.Finding{
				Rule: "mirror-restart", Severity: finding.SeverityWarning, File: path, Fix: "restart " + product + " on this node",
				Message: product + " reads this file only when it starts, and wrote " + made + " before this file was last changed",
			})
		}
		for _, f := range found {
			r.addFinding(f)
		}
		if len(found) == 0 {
			r.addResult(finding.SeverityOK, "", "%s: no problems found", terminal.QuoteShellPath(path))
		}
	}
}
