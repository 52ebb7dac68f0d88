// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registriesconf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/tomlfile"
)

// check normalises the tables of a file and reports whether the runtime accepts them.
// c/image: postProcessRegistries.
func (c *Config) check(f *tomlfile.File, doc *document) bool {
	for i := range doc.Registry {
		r := &doc.Registry[i]
		keys := []string{"registry", strconv.Itoa(i)}
		r.file, r.line = f.Path, f.Near(keys...)
		if line, what, fix := r.check(f, keys); what != "" {
			c.refuse(f.Path, line, what, fix)
			return false
		}
	}
	for i := range doc.Registry {
		for _, o := range doc.Registry[:i] {
			if what := doc.Registry[i].contradicts(&o); what != "" {
				c.refuse(f.Path, doc.Registry[i].line, what, "use the same value in both entries")
				return false
			}
		}
	}
	if doc.Search == nil {
		return true
	}
	for i, host := range *doc.Search {
		host, ok := location(host)
		if (*doc.Search)[i] = host; !ok || strings.Contains(host, "/") || host == "" {
			c.refuse(f.Path, f.Near("unqualified-search-registries"), fmt.Sprintf("%q in unqualified-search-registries is not a host", route.Masked(host)), "use only host[:port]")
			return false
		}
	}
	return true
}

// check returns what is wrong with a table, its line and the fix, or "".
func (r *registry) check(f *tomlfile.File, keys []string) (line int, what, fix string) {
	at := func(key ...string) int { return f.Near(append(slices.Clone(keys), key...)...) }
	const scheme, plain = "has a scheme", "use host[:port][/path], and \"insecure = true\" for plain HTTP"
	var ok bool
	if r.Location, ok = location(r.Location); !ok {
		return at("location"), "location " + scheme, plain
	}
	if r.Prefix, ok = location(r.Prefix); !ok {
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
		return at("prefix"), fmt.Sprintf("the registry %q has no location", route.Masked(r.Prefix)), fmt.Sprintf("location = %q", route.Masked(r.Prefix))
	}
	if wild && strings.ContainsAny(r.Prefix, "/@:") {
		return at("prefix"), fmt.Sprintf("the wildcard prefix %q must contain only a host", route.Masked(r.Prefix)), "remove the port and path, or list each host"
	}
	if r.Pull != "" {
		return at("pull-from-mirror"), fmt.Sprintf("pull-from-mirror is set on the registry %q, but it is allowed only on mirrors", route.Masked(r.Prefix)), "set it in [[registry.mirror]]"
	}
	return r.checkMirrors(at)
}

func (r *registry) checkMirrors(at func(...string) int) (line int, what, fix string) {
	for j := range r.Mirror {
		m := &r.Mirror[j]
		n := strconv.Itoa(j)
		m.file, m.line = r.file, at("mirror", n)
		var ok bool
		m.slash = strings.HasSuffix(m.Location, "/")
		m.Location, ok = location(m.Location)
		switch {
		case !ok:
			return at("mirror", n, "location"), "the location of a mirror has a scheme", "use host[:port][/path], and \"insecure = true\" for plain HTTP"
		case m.Location == "":
			return m.line, fmt.Sprintf("a mirror of %q has no location", route.Masked(r.Prefix)), "set location = \"host[:port][/path]\""
		case r.Digests && m.Pull != "":
			return at("mirror", n, "pull-from-mirror"), fmt.Sprintf("mirror-by-digest-only for %q and pull-from-mirror for its mirror are mutually exclusive", route.Masked(r.Prefix)), "remove mirror-by-digest-only"
		case !slices.Contains([]string{"", "all", "digest-only", "tag-only"}, m.Pull):
			return at("mirror", n, "pull-from-mirror"), fmt.Sprintf("pull-from-mirror is %q", m.Pull), "use all, digest-only or tag-only"
		}
	}
	return 0, "", ""
}

// contradicts returns the setting in which two tables of one location differ.
func (r *registry) contradicts(o *registry) string {
	name := func(r *registry) string {
		if r.Location == "" {
			return r.Prefix
		}
		return r.Location
	}
	const text = "the location %q is listed twice, with different values for %q"
	switch {
	case name(r) != name(o):
		return ""
	case r.Insecure != o.Insecure:
		return fmt.Sprintf(text, route.Masked(name(r)), "insecure")
	case r.Blocked != o.Blocked:
		return fmt.Sprintf(text, route.Masked(name(r)), "blocked")
	}
	return ""
}

// location trims a location; ok is false if it has a scheme.
func location(s string) (trimmed string, ok bool) {
	s = strings.TrimRight(s, "/")
	return s, !strings.HasPrefix(s, "http://") && !strings.HasPrefix(s, "https://")
}
