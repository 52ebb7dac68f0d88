// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/textfmt"
)

// checkHost checks a host table or the server of a hosts.toml. dir is the name of the file's
// directory. last is true for the last host of the file.
func (c *checker) checkHost(f *hostsFile, h *host, dir string, last bool) {
	c.checkFiles(f, h)
	c.checkHeaders(f, h)
	if h.url == nil || h.url.Host == "" {
		if !last || h.name != "" {
			c.addFinding("mirror-path", finding.SeverityWarning, f.path, h.lineOrDefault(), "use https://HOST", "it has no host")
		}
		return
	}
	c.checkPath(f, h)
	if h.url.Scheme == "http" && !isLoopback(h.url.Host) {
		c.addFinding("mirror-plain-http", finding.SeverityInfo, f.path, h.lineOrDefault(), "write https://", "%s is used without TLS: anyone on the network path can read the credential", h.url.Host)
	}
	if dir == "_default" {
		c.addFinding("mirror-default", finding.SeverityInfo, f.path, h.lineOrDefault(), "add a separate directory for each registry",
			"%s is used for every registry that has no directory, and receives all their credentials", h.url.Host)
	}
}

// checkPath reports a host whose path cannot be the base path of a registry.
func (c *checker) checkPath(f *hostsFile, h *host) {
	const rule = "mirror-path"
	_, written, _ := strings.Cut(h.name, "://")
	_, written, _ = strings.Cut(written, "/")
	written = "/" + strings.TrimSuffix(written, "/") + "/"
	switch {
	case strings.LastIndex(h.name, "://") > len("https"):
		c.addFinding(rule, finding.SeverityWarning, f.path, h.lineOrDefault(), fmt.Sprintf("write https://%s", lastURLInText(h.name)),
			"%s%s contains more than one URL, so containerd sends %s requests for %s/NAME/manifests/TAG", h.sentenceSubject(), redactedURL(h.name), h.url.Host, route.RedactAddress(h.url.Path))
	case h.table.OverridePath && !strings.Contains(h.url.Path+"/", "/v2/"):
		c.addFinding(rule, finding.SeverityWarning, f.path, h.keyLine(f.file, "override_path"), fmt.Sprintf("add /v2 to the path (https://%s/v2%s), or remove override_path", h.url.Host, route.RedactAddress(strings.TrimSuffix(written, "/"))),
			"with override_path, containerd does not add /v2 to the path: %s gets requests for %s/NAME/manifests/TAG, without the /v2 that registries expect", h.url.Host, route.RedactAddress(strings.TrimSuffix(h.url.Path, "/")))
	case !h.table.OverridePath && strings.HasPrefix(written, "/v2/") && written != "/v2/" && !strings.HasSuffix(written, "/v2/"):
		c.addFinding(rule, finding.SeverityWarning, f.path, h.lineOrDefault(), "add override_path = true",
			"containerd adds /v2 to the path of %s, which already contains /v2: %s gets requests for %s/NAME/manifests/TAG", redactedURL(h.name), h.url.Host, route.RedactAddress(h.url.Path))
	}
}

// sentenceSubject returns the start of a sentence about the host.
func (h *host) sentenceSubject() string {
	if h.keys == nil {
		return "server = "
	}
	return "the host "
}

// redactedURL returns a host as configured, but without its password.
func redactedURL(name string) string { return strconv.Quote(route.RedactAddress(name)) }

// lastURLInText returns the last of several URLs in name, without its scheme and credentials.
func lastURLInText(name string) string {
	name = name[strings.LastIndex(name, "://")+len("://"):]
	return name[strings.LastIndexByte(name, '@')+1:]
}

// checkFiles reports certificates and keys that cannot be read.
func (c *checker) checkFiles(f *hostsFile, h *host) {
	check := func(key, name string) {
		if name == "" {
			return
		}
		if _, err := c.runtime.fs().ReadFile(context.Background(), name); err != nil {
			c.addFinding("mirror-missing-file", finding.SeverityError, f.path, h.keyLine(f.file, key), "create the file, or remove the setting",
				"%s refers to %s, which cannot be read (%v): every pull that uses this file fails, including pulls from the image's own host", key, name, regularfile.BareError(err))
		}
	}
	for _, name := range h.ca {
		check("ca", name)
	}
	for _, pair := range h.client {
		check("client", pair[0])
		check("client", pair[1])
	}
}

// checkHeaders checks Authorization headers.
func (c *checker) checkHeaders(f *hostsFile, h *host) {
	for _, name := range slices.Sorted(maps.Keys(h.table.Header)) {
		if !isAuthorizationHeader(name) {
			continue
		}
		line := h.keyLine(f.file, "header", name)
		switch {
		case name != "Authorization":
			c.addFinding("mirror-header", finding.SeverityWarning, f.path, line, "use Authorization", "the header %q is sent in addition to the runtime's own Authorization header", name)
		case c.isReadableByOthers(f.path):
			c.addFinding("mirror-header", finding.SeverityWarning, f.path, line, "chmod 600 "+textfmt.QuoteShellPath(f.path), "the file contains an Authorization header but is readable by other users")
		default:
			c.addFinding("mirror-header", finding.SeverityInfo, f.path, line, "", "this Authorization header is tried first; if the host rejects it, the kubelet's credential is used")
		}
	}
}

// checkTables reports host tables that containerd ignores, and hosts that it queries twice.
func (c *checker) checkTables(f *hostsFile) {
	var top struct {
		Hosts map[string]any `toml:"host"` // the decoder also accepts other capitalizations of "host"
	}
	if f.file.Decode(&top) != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(top.Hosts)) {
		n := 0
		for i := range f.hosts {
			if f.hosts[i].keys != nil && f.hosts[i].name == name {
				n++
			}
		}
		line := f.file.Line("host", name)
		switch {
		case n == 0 && c.release.isAtLeast2():
			c.addFinding("mirror-inline", finding.SeverityWarning, f.path, line, "use a table: [host."+redactedURL(name)+"]", "containerd 2 ignores a host that is not a table")
		case n > 1:
			c.addFinding("mirror-twice", finding.SeverityInfo, f.path, line, "put the host's tables next to each other", "the host's tables are not adjacent, so containerd 2 queries the host %d times", n)
		}
	}
}

var knownHostKeys = []string{"capabilities", "ca", "client", "skip_verify", "override_path", "header", "dial_timeout"}

// checkKeys reports unknown keys, which containerd silently ignores.
func (c *checker) checkKeys(f *hostsFile) {
	var top map[string]any
	if f.file.Decode(&top) != nil {
		return
	}
	c.checkTableKeys(f, top, nil, append([]string{"server", "host"}, knownHostKeys...))
	for name, t := range asTable(top["host"]) {
		c.checkTableKeys(f, asTable(t), []string{"host", name}, knownHostKeys)
	}
}

func (c *checker) checkTableKeys(f *hostsFile, t map[string]any, at, known []string) {
	for _, key := range slices.Sorted(maps.Keys(t)) {
		if slices.Contains(known, key) {
			continue
		}
		fix := "valid keys: " + strings.Join(known, ", ")
		lower, near := strings.ToLower(key), strings.ReplaceAll(key, "-", "_")
		switch {
		case slices.Contains(known, lower) && c.release.isAtLeast2():
			continue // containerd 2's parser is case-insensitive
		case slices.Contains(known, lower):
			fix = "write " + lower
		case slices.Contains(known, near):
			fix = "write " + near
		case key == "server":
			fix = "move the key above the first table header; a key below a header belongs to that header's table"
		}
		c.addFinding("mirror-unknown-key", finding.SeverityWarning, f.path, f.file.NearestLine(append(slices.Clone(at), key)...), fix, "containerd ignores the key %q here", key)
	}
}
