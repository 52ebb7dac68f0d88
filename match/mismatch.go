// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	"fmt"
	"strings"
	"unicode"
)

// Mismatch says why a pattern does not match, and how near it came.
type Mismatch struct {
	Reason  string // for people; "" if the pattern matches
	Instead string // a pattern like this one that does match, if one is evident
	// Near compares patterns for one repository: the higher, the nearer. What
	// counts is first the domain in which the registry's owner has his names,
	// then the labels that are alike, the port, and how far the paths agree. It
	// is negative if the pattern names another owner's domain.
	Near int
}

// Why is the reason of [Pattern.Mismatch] for a normalised repository.
func (p Pattern) Why(repository string) string {
	at, err := ParseLocation(repository)
	if err != nil {
		return "invalid repository: " + err.Error()
	}
	return p.Mismatch(at).Reason
}

// Mismatch says why p does not match a repository. The first reason counts, in
// the order host, port, path.
func (p Pattern) Mismatch(at Location) Mismatch {
	if p.Matches(at) {
		return Mismatch{Near: nearest}
	}
	meant, slip := p.at.meantFor(at)
	c := compare(meant, at)
	m := Mismatch{Reason: slip, Near: c.near()}
	if slip == "" {
		m.Reason = c.reason()
	}
	if instead, err := Parse(c.mended().String()); err == nil && c.relatives() && instead.Matches(at) {
		m.Instead = instead.raw
	}
	return m
}

// meantFor is what the author of a pattern meant who did not know how images
// are named: the pattern without what keeps it from matching any, and what that is.
func (l Location) meantFor(at Location) (meant Location, slip string) {
	rest, hasScheme := strings.CutPrefix(l.Path, "//")
	meant, err := ParseLocation(rest)
	switch {
	case hasScheme && err == nil && l.labels == 1:
		return meant, fmt.Sprintf("scheme: patterns cannot have a scheme, so %q is parsed as the host", l.Host)
	case at.Host == hub && at.Port == "" && l.Port == "" && hubAlias(l.Host):
		meant = l
		meant.Host, meant.labels = at.Host, at.labels
		return meant, fmt.Sprintf("host: Docker Hub images are matched as docker.io/…, not %s/…", l.Host)
	case at.Host == hub && at.Port == "" && l.Port == "" && l.labels == 1 && strings.HasPrefix(hubPath(l)+"/", at.Path+"/"):
		meant = at
		meant.Path = hubPath(l)
		return meant, "host: the pattern has no host, but Docker Hub images are matched as docker.io/…"
	case at.Host == hub && l.Host == hub && !strings.HasPrefix(at.Path, l.Path) && strings.HasPrefix(at.Path+"/", "/library"+l.Path+"/"):
		meant = l
		meant.Path = "/library" + l.Path
		return meant, fmt.Sprintf("path: %q does not begin with %q (official Docker Hub images are in library/)", at.Path, l.Path)
	}
	return l, ""
}

// hubPath is the path of a name that begins with no host.
func hubPath(l Location) string {
	if l.Path == "" {
		return "/library/" + l.Host
	}
	return "/" + l.Host + l.Path
}

// hubAlias reports whether host is another name of Docker Hub than the one that
// images have.
func hubAlias(host string) bool {
	switch host {
	case "index.docker.io", "registry-1.docker.io", "registry.docker.io", "hub.docker.io", "www.docker.io",
		"docker.com", "hub.docker.com", "registry.hub.docker.com", "registry.docker.com", "index.docker.com", "www.docker.com":
		return true
	}
	return false
}

// reason says in which part the two differ.
func (c *comparison) reason() string {
	switch {
	case c.pattern.labels != c.at.labels:
		return c.countMismatch()
	case !c.hostMatches():
		return c.labelMismatch()
	case c.pattern.Port != c.at.Port:
		return portMismatch(c.pattern.Port, c.at.Port)
	}
	return pathMismatch(c.pattern.Path, c.at.Path)
}

func (c *comparison) countMismatch() string {
	counts := fmt.Sprintf("host: %q has %s, but %q has %s (a * matches one label)",
		c.pattern.Host, count(c.pattern.labels, "label"), c.at.Host, count(c.at.labels, "label"))
	if c.kin < relative {
		return counts
	}
	if p, i := c.ends(); p != "" && i != "" {
		return fmt.Sprintf("host: the pattern ends in %q, but the image host ends in %q", p, i)
	}
	d, much := c.pattern.labels-c.at.labels, "long"
	if d < 0 {
		d, much = -d, "short"
	}
	return "host: " + count(d, "label") + " too " + much + strings.TrimPrefix(counts, "host")
}

// ends returns how the hosts end, from the last label on that is alike and has
// no glob, if it is there that they differ in length.
func (c *comparison) ends() (pattern, image string) {
	last := -1
	for i, j := range c.pairs {
		if j >= 0 && c.wants[i] == c.has[j] {
			last = i
		}
	}
	if last < 0 {
		return "", ""
	}
	p, i := c.wants[last:], c.has[c.pairs[last]:]
	if len(p)-len(i) != len(c.wants)-len(c.has) {
		return "", ""
	}
	return strings.Join(p, "."), strings.Join(i, ".")
}

func (c *comparison) labelMismatch() string {
	for i, want := range c.wants {
		got := c.has[i]
		if Label(want, got) {
			continue
		}
		where := fmt.Sprintf("label %d", i+1)
		if i > 0 && i == len(c.wants)-1 && c.kin >= relative {
			where = "last label"
		}
		reason := fmt.Sprintf("%s: %q does not match %q", where, got, want)
		switch {
		case got == want:
			reason += " (brackets without a port after them are parsed as a character class)"
		case strings.EqualFold(got, want):
			reason += " (matching is case-sensitive)"
		}
		return reason
	}
	return ""
}

func portMismatch(want, got string) string {
	switch {
	case got == "":
		return fmt.Sprintf("port: the pattern has %s, but the image has none", want)
	case want == "":
		return fmt.Sprintf("port: the image has %s, but the pattern has none", got)
	}
	return fmt.Sprintf("port: the image has %s, but the pattern has %s", got, want)
}

func pathMismatch(want, got string) string {
	reason := fmt.Sprintf("path: %q does not begin with %q", got, want)
	switch {
	case strings.ContainsAny(want, "*["):
		reason += " (globs do not work in paths)"
	case strings.ContainsAny(want, ":@"):
		reason += " (matching ignores tags and digests)"
	case strings.ContainsFunc(want, unicode.IsUpper):
		reason += " (image paths must be lowercase)"
	case got != "" && got+"/" == want:
		reason += " (the trailing slash in the pattern requires a longer image path)"
	}
	return reason
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
