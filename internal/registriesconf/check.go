// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registriesconf

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/tomlfile"
)

// normalizeTables normalizes the tables of a file and reports whether the runtime accepts them.
// Source: postProcessRegistries in c/image.
func (c *Config) normalizeTables(f *tomlfile.File, doc *parsedFile) bool {
	for i := range doc.Registry {
		r := &doc.Registry[i]
		keys := []string{"registry", strconv.Itoa(i)}
		r.file, r.line = f.Path, f.NearestLine(keys...)
		if line, what, fix := r.normalizeTable(f, keys); what != "" {
			c.recordRejection(f.Path, line, what, fix)
			return false
		}
	}
	for i := range doc.Registry {
		for _, o := range doc.Registry[:i] {
			if what := doc.Registry[i].conflictingSetting(&o); what != "" {
				c.recordRejection(f.Path, doc.Registry[i].line, what, "use the same value in both entries")
				return false
			}
		}
	}
	if !slices.Contains([]string{"", "disabled", "enforcing", "permissive"}, doc.Mode) {
		c.recordRejection(f.Path, f.NearestLine("short-name-mode"), fmt.Sprintf("short-name-mode is %q", doc.Mode), "use disabled, enforcing or permissive")
		return false
	}
	if doc.Search == nil {
		return true
	}
	for i, host := range *doc.Search {
		host, ok := trimLocation(host)
		if (*doc.Search)[i] = host; !ok || !domainPattern.MatchString(host) {
			c.recordRejection(f.Path, f.NearestLine("unqualified-search-registries"), fmt.Sprintf("%q in unqualified-search-registries is not a host", route.RedactAddress(host)), "use only host[:port]")
			return false
		}
	}
	return true
}

// Patterns of references in c/image, which does not support IPv6 addresses.
var (
	domainPattern = regexp.MustCompile(`^` + domainExpr + `$`)
	shortPattern  = regexp.MustCompile(`^` + pathExpr + `$`)
	namePattern   = regexp.MustCompile(`^` + domainExpr + `/` + pathExpr + `$`)
)

const (
	domainLabel = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	domainExpr  = domainLabel + `(?:\.` + domainLabel + `)*(?::[0-9]+)?`
	pathLabel   = `[a-z0-9]+(?:(?:[._]|__|-*)[a-z0-9]+)*`
	pathExpr    = pathLabel + `(?:/` + pathLabel + `)*`
)

// mergeAliases merges the short names of a file. An empty value removes an alias. Source:
// newShortNameAliasCache in c/image.
func (c *Config) mergeAliases(f *tomlfile.File, doc *parsedFile) {
	aliases, _ := doc.Aliases.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(aliases)) {
		value, isString := aliases[name].(string)
		if !isString || !isShortName(name) || value != "" && !isFullName(value) {
			c.recordRejection(f.Path, f.NearestLine("aliases", name), fmt.Sprintf("the alias %q is invalid", route.RedactAddress(name)), "map a name without a host to host/name, both without a tag and digest")
			return
		}
		if c.aliases[name] = value; value == "" {
			delete(c.aliases, name)
		}
	}
}

func isShortName(name string) bool {
	first, _, found := strings.Cut(name, "/")
	return shortPattern.MatchString(name) && !(found && (strings.Contains(first, ".") || first == "localhost"))
}

func isFullName(name string) bool {
	host, _, _ := strings.Cut(name, "/")
	return namePattern.MatchString(name) && (strings.ContainsAny(host, ".:") || host == "localhost")
}

// normalizeTable normalizes a table. If the runtime rejects the table, it returns the line, the problem and
// the fix.
func (r *registry) normalizeTable(f *tomlfile.File, keys []string) (line int, what, fix string) {
	at := func(key ...string) int { return f.NearestLine(append(slices.Clone(keys), key...)...) }
	const scheme, plain = "has a scheme", "use host[:port][/path], and \"insecure = true\" for plain HTTP"
	var ok bool
	if r.Location, ok = trimLocation(r.Location); !ok {
		return at("location"), "location " + scheme, plain
	}
	if r.Prefix, ok = trimLocation(r.Prefix); !ok {
		return at("prefix"), "prefix " + scheme, plain
	}
	wild := strings.HasPrefix(r.Prefix, "*.")
	switch {
	case r.Prefix == "" && r.Location == "":
		return at(), "a registry has neither a prefix nor a location", "set prefix = \"host[:port][/path]\""
	case r.Prefix == "":
		r.Prefix = r.Location
		wild = strings.HasPrefix(r.Prefix, "*.")
	case r.Location == "" && !wild:
		return at("prefix"), fmt.Sprintf("the registry %q has no location", route.RedactAddress(r.Prefix)), fmt.Sprintf("location = %q", route.RedactAddress(r.Prefix))
	}
	if wild && strings.ContainsAny(r.Prefix, "/@:") {
		return at("prefix"), fmt.Sprintf("the wildcard prefix %q must contain only a host", route.RedactAddress(r.Prefix)), "remove the port and path, or list each host"
	}
	if r.Pull != "" {
		return at("pull-from-mirror"), fmt.Sprintf("pull-from-mirror is set on the registry %q, but it is allowed only on mirrors", route.RedactAddress(r.Prefix)), "set it in [[registry.mirror]]"
	}
	return r.checkMirrors(at)
}

func (r *registry) checkMirrors(at func(...string) int) (line int, what, fix string) {
	for j := range r.Mirror {
		m := &r.Mirror[j]
		n := strconv.Itoa(j)
		m.file, m.line = r.file, at("mirror", n)
		var ok bool
		m.hadTrailingSlash = strings.HasSuffix(m.Location, "/")
		m.Location, ok = trimLocation(m.Location)
		switch {
		case !ok:
			return at("mirror", n, "location"), "the location of a mirror has a scheme", "use host[:port][/path], and \"insecure = true\" for plain HTTP"
		case m.Location == "":
			return m.line, fmt.Sprintf("a mirror of %q has no location", route.RedactAddress(r.Prefix)), "set location = \"host[:port][/path]\""
		case r.Digests && m.Pull != "":
			return at("mirror", n, "pull-from-mirror"), fmt.Sprintf("mirror-by-digest-only for %q and pull-from-mirror for its mirror are mutually exclusive", route.RedactAddress(r.Prefix)), "remove mirror-by-digest-only"
		case !slices.Contains([]string{"", "all", "digest-only", "tag-only"}, m.Pull):
			return at("mirror", n, "pull-from-mirror"), fmt.Sprintf("pull-from-mirror is %q", m.Pull), "use all, digest-only or tag-only"
		}
	}
	return 0, "", ""
}

// conflictingSetting returns a message about a setting that differs between two tables for the same
// location. It returns "" if there is none.
func (r *registry) conflictingSetting(o *registry) string {
	name := func(r *registry) string { return cmp.Or(r.Location, r.Prefix) }
	const text = "the location %q is listed twice, with different values for %q"
	switch {
	case name(r) != name(o):
		return ""
	case r.Insecure != o.Insecure:
		return fmt.Sprintf(text, route.RedactAddress(name(r)), "insecure")
	case r.Blocked != o.Blocked:
		return fmt.Sprintf(text, route.RedactAddress(name(r)), "blocked")
	}
	return ""
}

// trimLocation removes trailing slashes from a location. ok is false if the location has a scheme.
func trimLocation(s string) (trimmed string, ok bool) {
	s = strings.TrimRight(s, "/")
	return s, !strings.HasPrefix(s, "http://") && !strings.HasPrefix(s, "https://")
}

// Check returns findings about settings that do not work as intended.
func (c *Config) Check() []finding.Finding {
	if c.Rejection != nil {
		return []finding.Finding{*c.Rejection}
	}
	found := append([]finding.Finding{}, c.fileFindings...)
	add := func(rule string, severity finding.Severity, file string, line int, fix, format string, args ...any) {
		found = append(found, finding.Finding{Rule: rule, Severity: severity, File: file, Line: line, Message: fmt.Sprintf(format, args...), Fix: fix})
	}
	for _, r := range c.registries {
		_, path, _ := strings.Cut(r.Prefix, "/")
		switch {
		case hasTagOrDigest(r.Prefix):
			add("mirror-prefix", finding.SeverityWarning, r.file, r.line, "remove the tag and digest", "the prefix %q has a tag or digest, so no image matches it", route.RedactAddress(r.Prefix))
		case strings.HasPrefix(r.Prefix, "docker.io/") && path != "" && !strings.Contains(path, "/") && path != "library" && len(r.Mirror) > 0:
			add("mirror-prefix", finding.SeverityInfo, r.file, r.line, "use docker.io/library/"+path+" to match the official image", "the prefix %q matches images in the account %s, not the official image with that name", r.Prefix, path)
		case strings.HasPrefix(r.Prefix, "registry-1.docker.io") || strings.HasPrefix(r.Prefix, "index.docker.io"):
			add("mirror-prefix", finding.SeverityWarning, r.file, r.line, "use docker.io", "no image matches the prefix %q: Docker Hub images have the host docker.io", route.RedactAddress(r.Prefix))
		}
		for _, m := range append(r.Mirror, r.endpoint) {
			if m.hadTrailingSlash {
				add("mirror-path", finding.SeverityWarning, m.file, m.line, "remove the trailing slash", "older runtimes keep the trailing slash in a mirror's location, so every pull from %q fails", route.RedactAddress(r.Prefix))
			}
			if rest, ok := strings.CutPrefix(pathAfterHost(m.Location), "/v2"); ok && (rest == "" || rest[0] == '/') {
				add("mirror-path", finding.SeverityWarning, cmp.Or(m.file, r.file), cmp.Or(m.line, r.line), "leave /v2 out", "the location %q includes the API path /v2, which the runtime adds, so requests go to /v2/v2", route.RedactAddress(m.Location))
			}
		}
	}
	return found
}

// hasTagOrDigest reports whether a prefix contains a tag or digest.
func hasTagOrDigest(prefix string) bool {
	return strings.Contains(prefix, "@") || strings.Contains(pathAfterHost(prefix), ":")
}

// pathAfterHost returns the path of a location, including its leading slash.
func pathAfterHost(location string) string {
	if i := strings.IndexByte(location, '/'); i >= 0 {
		return location[i:]
	}
	return ""
}

// Hosts returns the image hosts that have settings.
func (c *Config) Hosts() (list []string) {
	for _, r := range c.registries {
		host, _, _ := strings.Cut(r.Prefix, "/")
		if image, err := route.Parse(host + "/image:tag"); err != nil || image.Host != host {
			continue // no image has such a host, for example *.host or user:password@host
		}
		if !slices.Contains(list, host) {
			list = append(list, host)
		}
	}
	return list
}
