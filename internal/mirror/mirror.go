// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package mirror says which registry of a cloud has the images of another
// name, for runtimes that are told to pull those from there: a pull-through
// cache of Docker Hub, for instance.
//
//	m, err := mirror.Parse([]string{"docker.io=111122223333.dkr.ecr.eu-west-1.amazonaws.com/hub"}, mirror.Options{…})
//	if rule, ok := m.Find("docker.io/library/nginx"); ok {
//		// The credential is that of rule.Target, answered under docker.io.
//	}
//
// A kubelet matches and asks by the image's own name, and a runtime gives what
// it gets to whomever it asks for that name. containerd: to each host that
// answers 401, mirrors first, and if they fail, the origin. So a map for a
// name of strangers needs a word about that origin, see [Origin].
package mirror

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/plugin"
)

// Rule maps images to the registry that has them.
type Rule struct {
	Source string // what images begin with: a host, or a host and a path
	Target string // host[:port] of the registry
	Path   string // below which the registry has them; "" if at its root
}

// Origin is what is known about a mirrored name's own host, which is shown
// the credential if the runtime falls back to it. It is a value of a flag; ""
// says nothing.
type Origin string

// The values of --mirror-origin.
const (
	OriginNone    Origin = "none"    // the runtime never falls back to it
	OriginTrusted Origin = "trusted" // it may see the credential
)

// MarshalText is the value as it is written.
func (o Origin) MarshalText() ([]byte, error) { return []byte(o), nil }

// UnmarshalText refuses what is none of the values.
func (o *Origin) UnmarshalText(text []byte) error {
	switch v := Origin(text); v {
	case OriginNone, OriginTrusted:
		*o = v
		return nil
	}
	return fmt.Errorf("must be %s or %s", OriginNone, OriginTrusted)
}

// Options are what a plugin knows.
type Options struct {
	Own    func(host string) bool // whether host[:port] is a registry of the plugin's
	Target func(host string) bool // whether it may be a target; nil means Own
	Owner  string                 // whose registries these are, for errors: "Amazon ECR"
	Origin Origin
}

// Map is a set of rules. The zero value has none.
type Map struct {
	rules []Rule // the longest source first
}

// Parse reads rules of the form SOURCE=TARGET[/PATH]. It refuses what would
// give a credential to the wrong place, or depend on an order.
func Parse(entries []string, opts Options) (Map, error) {
	var m Map
	for _, entry := range entries {
		r, err := parseRule(entry)
		if err == nil {
			err = r.check(opts)
		}
		at := slices.IndexFunc(m.rules, func(o Rule) bool { return o.Source == r.Source })
		if err == nil && at >= 0 && m.rules[at] != r {
			err = errors.New("the source already has another target; use one target per source")
		}
		if err != nil {
			return Map{}, fmt.Errorf("mirror %q: %w", entry, err)
		}
		if at >= 0 {
			continue // said twice
		}
		m.rules = append(m.rules, r)
	}
	slices.SortStableFunc(m.rules, func(a, b Rule) int { return cmp.Compare(len(b.Source), len(a.Source)) })
	for _, r := range m.rules {
		if next, ok := m.Find(r.image()); ok {
			return Map{}, fmt.Errorf("mirror \"%s=%s\": the target is also the source of \"%s=%s\"; set the target to the registry that has the images",
				r.Source, r.image(), next.Source, next.image())
		}
	}
	return m, nil
}

// parseRule reads one rule. Hosts are in lower case from here on; paths are
// as they are written.
func parseRule(entry string) (Rule, error) {
	source, target, ok := strings.Cut(entry, "=")
	if !ok || strings.Contains(target, "=") {
		return Rule{}, errors.New("must be SOURCE=TARGET, such as docker.io=REGISTRY")
	}
	fromHost, fromPath, err := cutHost(source)
	if err != nil {
		return Rule{}, fmt.Errorf("source %q: %w", source, err)
	}
	toHost, toPath, err := cutHost(target)
	if err != nil {
		return Rule{}, fmt.Errorf("target %q: %w", target, err)
	}
	if fromHost == "index.docker.io" || fromHost == "registry-1.docker.io" {
		return Rule{}, fmt.Errorf("source %q: use docker.io, the kubelet's name for Docker Hub", source)
	}
	return Rule{Source: join(fromHost, fromPath), Target: toHost, Path: toPath}, nil
}

// cutHost cuts host[:port][/path], in which nothing stands for anything else.
func cutHost(s string) (host, path string, err error) {
	host, path, hasPath := strings.Cut(strings.TrimRight(s, "/"), "/")
	host = strings.ToLower(host)
	switch {
	case strings.Contains(s, "://"):
		return "", "", errors.New("remove the scheme")
	case strings.Contains(s, "*"):
		return "", "", errors.New("wildcards are not supported; list each host")
	case hostpattern.Check(host) != nil || !strings.ContainsAny(host, ".:"):
		return "", "", errors.New("must begin with host[:port]")
	case hasPath && (strings.ContainsAny(path, ":@ ?#") || strings.Contains("/"+path+"/", "//")):
		return "", "", errors.New("the path must be a repository path without a tag or digest")
	}
	return host, path, nil
}

// check refuses a rule that would give a credential to strangers.
func (r Rule) check(opts Options) error {
	source, _, _ := strings.Cut(r.Source, "/")
	target := opts.Target
	if target == nil {
		target = opts.Own
	}
	switch {
	case !target(r.Target):
		return fmt.Errorf("the target %s is not part of %s; allow it with --allow-host", r.Target, opts.Owner)
	case opts.Origin == "" && !opts.Own(source):
		return fmt.Errorf("if the runtime falls back to %s, it sends this credential there; set --mirror-origin=%s if the runtime cannot fall back "+
			"(regcred doctor checks whether it can), or --mirror-origin=%s if %s is allowed to receive it", source, OriginNone, OriginTrusted, source)
	}
	return nil
}

// image is what the images of the target begin with.
func (r Rule) image() string { return join(r.Target, r.Path) }

func join(host, path string) string {
	if path == "" {
		return host
	}
	return host + "/" + path
}

// Rules are in the order in which they are looked at.
func (m Map) Rules() []Rule { return slices.Clone(m.rules) }

// Sources are what images begin with that have a mirror: patterns, in the
// syntax of matchImages.
func (m Map) Sources() (list []string) {
	for _, r := range m.rules {
		list = append(list, r.Source)
	}
	return list
}

// Find returns the rule for an image: that with the longest source.
func (m Map) Find(image string) (Rule, bool) {
	for _, r := range m.rules {
		if r.covers(image) {
			return r, true
		}
	}
	return Rule{}, false
}

// covers reports whether an image begins with the source, and whether that
// ends where a name in the image does.
func (r Rule) covers(image string) bool {
	if _, rest, found := strings.Cut(image, "://"); found {
		image = rest
	}
	host, path, _ := strings.Cut(image, "/")
	rest, ok := strings.CutPrefix(join(strings.ToLower(host), path), r.Source)
	switch {
	case !ok:
		return false
	case rest == "" || rest[0] == '/' || rest[0] == '@':
		return true
	}
	return rest[0] == ':' && strings.Contains(r.Source, "/") // a tag; after a host, it is a port
}

// Divides reports whether images of one host (with its port, as in the image)
// have different answers, so that one is good for an image alone. A plugin
// that serves a part of a host is asked for the rest as well, and has nothing
// for it: that is an empty answer, and no failure.
func (m Map) Divides(host string) bool {
	host = strings.ToLower(host)
	return slices.ContainsFunc(m.rules, func(r Rule) bool { return strings.HasPrefix(r.Source, host+"/") })
}

// Scope is what an answer for an image of the host is good for.
func (m Map) Scope(host string) plugin.CacheKeyType {
	if m.Divides(host) {
		return plugin.CacheImage
	}
	return plugin.CacheRegistry
}
