// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registriesconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/route"
)

// Check returns findings about settings that do not work as intended.
func (c *Config) Check() []finding.Finding {
	if c.Broken != nil {
		return []finding.Finding{*c.Broken}
	}
	found := append([]finding.Finding{}, c.twice...)
	add := func(rule string, severity finding.Severity, file string, line int, fix, format string, args ...any) {
		found = append(found, finding.Finding{Rule: rule, Severity: severity, File: file, Line: line, Message: fmt.Sprintf(format, args...), Fix: fix})
	}
	for _, r := range c.registries {
		_, path, _ := strings.Cut(r.Prefix, "/")
		switch {
		case hasTag(r.Prefix):
			add("mirror-prefix", finding.SeverityWarning, r.file, r.line, "remove the tag and digest", "the prefix %q has a tag or digest, so no image matches it", route.Masked(r.Prefix))
		case strings.HasPrefix(r.Prefix, "docker.io/") && path != "" && !strings.Contains(path, "/") && path != "library" && len(r.Mirror) > 0:
			add("mirror-prefix", finding.SeverityInfo, r.file, r.line, "use docker.io/library/"+path+" to match the official image", "the prefix %q matches images in the account %s, not the official image with that name", r.Prefix, path)
		case strings.HasPrefix(r.Prefix, "registry-1.docker.io") || strings.HasPrefix(r.Prefix, "index.docker.io"):
			add("mirror-prefix", finding.SeverityWarning, r.file, r.line, "use docker.io", "no image matches the prefix %q: Docker Hub images have the host docker.io", route.Masked(r.Prefix))
		}
		for _, m := range append(r.Mirror, r.endpoint) {
			if m.slash {
				add("mirror-path", finding.SeverityWarning, m.file, m.line, "remove the trailing slash", "older runtimes keep the trailing slash in a mirror's location, so every pull from %q fails", route.Masked(r.Prefix))
			}
			if rest, ok := strings.CutPrefix(afterHost(m.Location), "/v2"); ok && (rest == "" || rest[0] == '/') {
				add("mirror-path", finding.SeverityWarning, cmp.Or(m.file, r.file), cmp.Or(m.line, r.line), "leave /v2 out", "the location %q includes the API path /v2, which the runtime adds, so requests go to /v2/v2", route.Masked(m.Location))
			}
		}
	}
	return found
}

// hasTag reports whether a prefix has a tag or digest.
func hasTag(prefix string) bool {
	return strings.Contains(prefix, "@") || strings.Contains(afterHost(prefix), ":")
}

// afterHost returns the path of a location, with its slash.
func afterHost(location string) string {
	if i := strings.IndexByte(location, '/'); i >= 0 {
		return location[i:]
	}
	return ""
}

// Hosts returns the image hosts that have their own settings.
func (c *Config) Hosts() (list []string) {
	for _, r := range c.registries {
		host, _, _ := strings.Cut(r.Prefix, "/")
		if image, err := route.Parse(host + "/image:tag"); err != nil || image.Host != host {
			continue // as no image's is: *.host, or one with a password before it
		}
		if !slices.Contains(list, host) {
			list = append(list, host)
		}
	}
	return list
}
