// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/finding"
	registries "github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/route"
)

// dockerHubHost is the registry of Docker Hub images.
const dockerHubHost = registries.DockerHubServer

// Route returns the hosts that containerd queries for an image, with findings about the
// files that apply to the image.
func (r *Runtime) Route(image route.Image) *route.Route {
	w := r.RouteFor(image, r.versionOrNewest())
	for _, f := range r.Check() {
		if f.Rule == RuleUnknownVersion || f.Rule == ruleConfigPathUnset && !r.hasDefaultHostDir(image.Host) {
			continue
		}
		if slices.Contains(w.Files, f.File) {
			w.Findings = append(w.Findings, f)
		}
	}
	r.addPortMismatchFinding(w, image.Host)
	w.Findings = r.withVersionNote(w.Findings)
	return w
}

// hasDefaultHostDir reports whether documentedCertDir contains a directory for a host.
func (r *Runtime) hasDefaultHostDir(host string) bool {
	dir, err := r.hostDir([]string{documentedCertDir}, host)
	return err != nil || dir != ""
}

// addPortMismatchFinding reports a directory for the image's host without the image's port.
// containerd does not use such a directory.
func (r *Runtime) addPortMismatchFinding(w *route.Route, host string) {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		return
	}
	for _, root := range r.decodeRegistry(r.versionOrNewest()).configPaths {
		if dir := filepath.Join(root, name); len(w.Files) == len(r.Files) && r.hasHostsFile(dir) {
			w.Findings = append(w.Findings, finding.Finding{
				Rule: "mirror-directory", Severity: finding.SeverityWarning, File: filepath.Join(dir, "hosts.toml"), Line: 1,
				Message: fmt.Sprintf("this file is for %s and does not apply to images from %s", name, host),
				Fix:     "move it to " + filepath.Join(root, strings.Replace(host, ":", "_", 1)+"_"),
			})
		}
	}
}

func (r *Runtime) hasHostsFile(dir string) bool {
	_, err := r.fs().Stat(filepath.Join(dir, "hosts.toml"))
	return err == nil
}

// RouteFor returns the hosts that a given release queries for an image, without
// findings.
func (r *Runtime) RouteFor(image route.Image, v Version) *route.Route {
	w := &routePlanner{runtime: r, registryConfig: r.decodeRegistry(v), image: image, version: v}
	w.Route = &route.Route{Runtime: "containerd", Version: v.String(), Repository: image.Repository, Files: slices.Clone(r.Files), Hops: []route.Hop{}}
	if why := w.loadError(); why != "" {
		w.FailureReason = why
		return w.Route
	}
	if len(w.configPaths) == 0 {
		w.addMirrors()
	} else {
		w.addHosts()
	}
	if w.FailureReason != "" {
		w.Hops = []route.Hop{}
	}
	return w.Route
}

// routePlanner collects the hosts of a route.
type routePlanner struct {
	*registryConfig
	*route.Route
	runtime *Runtime
	image   route.Image
	version Version
}

// loadError returns why the CRI plugin does not load, or "".
func (w *routePlanner) loadError() string {
	switch {
	case w.invalidPath:
		file, line := w.runtime.keyLocation("registry", "config_path")
		return fmt.Sprintf("%s:%d: config_path is not a string, so the CRI plugin does not load", file, line)
	case len(w.configPaths) == 0:
		return ""
	case len(w.mirrors) > 0:
		file, line := w.runtime.keyLocation("registry", "mirrors")
		return fmt.Sprintf("%s:%d: the CRI plugin does not load: config_path and registry.mirrors are mutually exclusive", file, line)
	case len(w.tls) > 0 && !w.version.isAtLeast2():
		file, line := w.runtime.keyLocation("registry", "configs")
		return fmt.Sprintf("%s:%d: the CRI plugin does not load: config_path and registry.configs.*.tls are mutually exclusive", file, line)
	}
	return ""
}

// addHosts adds the hosts of the hosts.toml that applies to the image.
func (w *routePlanner) addHosts() {
	dir, err := w.runtime.hostDir(w.configPathDirs(), w.image.Host)
	if err != nil {
		w.FailureReason = err.Error()
		return
	}
	own := []host{{}}
	path := ""
	if dir != "" {
		h, err := w.runtime.readHosts(dir, w.version)
		if err != nil {
			w.Files = append(w.Files, dir)
			w.FailureReason = err.Error()
			return
		}
		own, path = h.hosts, h.path
		if h.file == nil {
			path = dir
		}
		w.Files = append(w.Files, path)
	}
	for i := range own {
		w.addHost(&own[i], path, i == len(own)-1)
	}
}

// configPathDirs returns the directories in config_path. The transfer service of some
// releases treats a list as a single directory name, which does not exist.
func (w *routePlanner) configPathDirs() []string {
	if w.treatsListAsOneDir(w.version) {
		return nil
	}
	return w.configPaths
}

// hostDir returns the directory for a host in the first of roots that has one. It returns "" if
// there is none.
func (r *Runtime) hostDir(roots []string, host string) (string, error) {
	names := []string{host, "_default"}
	if i := strings.LastIndexByte(host, ':'); i > 0 {
		names = slices.Insert(names, 0, host[:i]+"_"+host[i+1:]+"_")
	}
	for _, root := range roots {
		for _, name := range names {
			dir := filepath.Join(root, name)
			switch _, err := r.fs().Stat(dir); {
			case err == nil: // containerd does not check whether it is a directory
				return dir, nil
			case !errors.Is(err, fs.ErrNotExist):
				return "", fmt.Errorf("check %s: %w", dir, regularfile.BareError(err))
			}
		}
	}
	return "", nil
}

// addHost adds a host. If the last host has no name, it is the image's own host.
func (w *routePlanner) addHost(h *host, path string, last bool) {
	var hop route.Hop
	if last && (h.url == nil || h.url.Host == "") {
		hop = w.originHop()
	} else {
		hop = route.NewHop(h.url.Scheme, h.url.Host, h.url.Path, w.image.Path)
		hop.IsOrigin = w.isOrigin(h.url.Host)
		hop.Skipped = w.skipReason(h.table.Capabilities)
		explicit := h.table.CA != nil || len(h.client) > 0 || h.table.SkipVerify != nil
		hop.TriesHTTPSFirst = h.url.Scheme == "http" && explicit && w.version.triesHTTPSFirst() && portOrDefault(h.url.Host) != "80"
	}
	hop.File, hop.Line, hop.CA, hop.ClientCertificates = path, h.line, h.ca, h.client
	hop.SkipVerify = hop.SkipVerify || h.table.SkipVerify != nil && *h.table.SkipVerify
	hop.Headers = slices.Sorted(maps.Keys(h.table.Header))
	if slices.ContainsFunc(hop.Headers, isAuthorizationHeader) {
		hop.Credential = route.CredentialHeader
	}
	w.addHop(hop)
	w.requireFiles(h, path)
}

func isAuthorizationHeader(name string) bool { return strings.EqualFold(name, "Authorization") }

// addHop adds a host to the route, after applying the settings that are the same for every host.
func (w *routePlanner) addHop(hop route.Hop) {
	hop.Headers = slices.Concat(hop.Headers, w.headers)
	if w.logins[hop.Base.Host] {
		hop.CredentialFile, hop.CredentialLine = w.runtime.loginLocation(hop.Base.Host)
	}
	w.Hops = append(w.Hops, hop)
}

// loginLocation returns the file and line of the password for a host.
func (r *Runtime) loginLocation(host string) (file string, line int) {
	for _, keys := range [][]string{{"configs", host, "auth"}, {"configs", host}, {"auths", host}, {"auths", "https://" + host}, {"auths", "http://" + host}, {"configs"}, {"auths"}} {
		if file, line = r.keyLocation(append([]string{"registry"}, keys...)...); line > 0 {
			return file, line
		}
	}
	return file, line
}

// skipReason returns why containerd does not request the manifest from a host, or "".
func (w *routePlanner) skipReason(capabilities []string) string {
	has := func(name string) bool {
		return len(capabilities) == 0 || slices.ContainsFunc(capabilities, func(c string) bool { return strings.EqualFold(c, name) })
	}
	switch {
	case !has("pull"):
		return "without the capability \"pull\", the host is used only to pull layers"
	case w.image.Digest == "" && !has("resolve"):
		return "without the capability \"resolve\", the host is not used to resolve tags"
	}
	return ""
}

// requireFiles sets Fails if a certificate or key of the host cannot be read.
func (w *routePlanner) requireFiles(h *host, path string) {
	names := slices.Clone(h.ca)
	for _, pair := range h.client {
		names = append(names, pair[0])
		if pair[1] != "" {
			names = append(names, pair[1])
		}
	}
	for _, name := range names {
		if _, err := w.runtime.fs().ReadFile(context.Background(), name); err != nil && w.FailureReason == "" {
			w.FailureReason = fmt.Sprintf("%s refers to %s, which cannot be read (%v)", path, name, regularfile.BareError(err))
		}
	}
}

// originHop returns the image's own host.
func (w *routePlanner) originHop() route.Hop {
	name, scheme := w.image.Host, "https"
	if name == "docker.io" {
		name = dockerHubHost
	}
	hop := route.NewHop(scheme, name, "/v2", w.image.Path)
	if isLoopback(name) {
		p := portOrDefault(name)
		plain := !w.version.triesHTTPSFirst() || p != "" && p != "443"
		if plain {
			hop = route.NewHop("http", name, "/v2", w.image.Path)
		}
		// containerd does not verify the certificate of a loopback host, and treats this as a TLS
		// setting.
		hop.SkipVerify = p != "80" || !w.version.triesHTTPSFirst()
		hop.TriesHTTPSFirst = plain && w.version.triesHTTPSFirst() && p != "80"
	}
	hop.IsOrigin = true
	return hop
}

// isOrigin reports whether a host is the image's own host.
func (w *routePlanner) isOrigin(host string) bool {
	return canonicalHost(host) == canonicalHost(w.image.Host)
}

// canonicalHost returns a host name in lower case, without a default port, and with docker.io for
// Docker Hub.
func canonicalHost(host string) string {
	host = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), ":443"), ":80")
	host = strings.TrimSuffix(host, ".")
	if host == dockerHubHost || host == registries.DockerHubIndex {
		return "docker.io"
	}
	return host
}

func portOrDefault(host string) string {
	_, p, _ := net.SplitHostPort(host)
	return p
}

// isLoopback reports whether a host, ignoring its port, is a loopback address.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return registries.IsLoopback(host)
}

// addMirrors adds the deprecated registry.mirrors of config.toml.
func (w *routePlanner) addMirrors() {
	key, own := w.image.Host, false
	if _, ok := w.mirrors[key]; !ok {
		key = "*"
	}
	for _, e := range w.mirrors[key] {
		if !strings.Contains(e, "://") {
			e = w.schemeFor(e) + "://" + e
		}
		u, err := url.Parse(e)
		if err != nil {
			file, line := w.runtime.keyLocation("registry", "mirrors", key)
			w.FailureReason = fmt.Sprintf("%s:%d: an endpoint must be a URL", file, line)
			return
		}
		own = own || u.Host == w.image.Host
		w.addEndpoint(u, key)
	}
	if own {
		return
	}
	name := w.image.Host
	if name == "docker.io" {
		name = dockerHubHost
	}
	w.addEndpoint(&url.URL{Scheme: w.schemeFor(name), Host: name}, "")
}

func (w *routePlanner) schemeFor(endpoint string) string {
	if u, err := url.Parse("dummy://" + endpoint); err == nil && isLoopback(u.Host) {
		return "http"
	}
	return "https"
}

// addEndpoint adds an endpoint that registry.mirrors lists under key. If key is "", it adds the
// image's own host.
func (w *routePlanner) addEndpoint(u *url.URL, key string) {
	hop := route.NewHop(u.Scheme, u.Host, cmp.Or(u.Path, "/v2"), w.image.Path)
	hop.IsOrigin = w.isOrigin(u.Host)
	if key != "" {
		hop.File, hop.Line = w.runtime.keyLocation("registry", "mirrors", key)
	}
	if t, ok := w.tls[u.Host]; ok && !w.version.isAtLeast2() {
		hop.SkipVerify = t.skipVerify
		if t.ca != "" {
			hop.CA = []string{t.ca}
		}
		if t.cert != "" {
			hop.ClientCertificates = [][2]string{{t.cert, t.key}}
		}
	} else if u.Scheme == "http" && isLoopback(w.image.Host) {
		hop.SkipVerify = true
	}
	w.addHop(hop)
}
