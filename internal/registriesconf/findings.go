// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registriesconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/route"
)

// Check says what of the files works otherwise than it reads.
func (c *Config) Check() []route.Finding {
	if c.Broken != nil {
		return []route.Finding{*c.Broken}
	}
	found := append([]route.Finding{}, c.twice...)
	add := func(rule, severity, file string, line int, fix, format string, args ...any) {
		found = append(found, route.Finding{Rule: rule, Severity: severity, File: file, Line: line, Message: fmt.Sprintf(format, args...), Suggestion: fix})
	}
	for _, r := range c.registries {
		_, path, _ := strings.Cut(r.Prefix, "/")
		switch {
		case hasTag(r.Prefix):
			add("mirror-prefix", route.Warning, r.file, r.line, "leave tag and digest out", "the prefix %q has a tag or digest, which no image is compared with", route.Masked(r.Prefix))
		case strings.HasPrefix(r.Prefix, "docker.io/") && path != "" && !strings.Contains(path, "/") && path != "library" && len(r.Mirror) > 0:
			add("mirror-prefix", route.Info, r.file, r.line, "write docker.io/library/"+path+" if the image is meant", "the prefix %q is for the images of the account %s, not for the official image of that name", r.Prefix, path)
		case strings.HasPrefix(r.Prefix, "registry-1.docker.io") || strings.HasPrefix(r.Prefix, "index.docker.io"):
			add("mirror-prefix", route.Warning, r.file, r.line, "write docker.io", "no image has the host of %q: those of Docker Hub are docker.io's", route.Masked(r.Prefix))
		}
		for _, m := range append(r.Mirror, r.endpoint) {
			if m.slash {
				add("mirror-path", route.Warning, m.file, m.line, "leave the slash at its end out", "older releases keep the slash at the end of the location of a mirror, for which every pull of %q fails", route.Masked(r.Prefix))
			}
			if rest, ok := strings.CutPrefix(afterHost(m.Location), "/v2"); ok && (rest == "" || rest[0] == '/') {
				add("mirror-path", route.Warning, cmp.Or(m.file, r.file), cmp.Or(m.line, r.line), "leave /v2 out", "the location %q has the path of the API, which is added to it: images are looked for below /v2/v2", route.Masked(m.Location))
			}
		}
	}
	return found
}

// hasTag reports whether a prefix goes on after the name of an image.
func hasTag(prefix string) bool {
	return strings.Contains(prefix, "@") || strings.Contains(afterHost(prefix), ":")
}

// afterHost is the path of a location, with the slash before it.
func afterHost(location string) string {
	if i := strings.IndexByte(location, '/'); i >= 0 {
		return location[i:]
	}
	return ""
}

// Hosts are those of images for which there are settings of their own.
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
