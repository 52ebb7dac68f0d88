// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/plugin"
)

// MirrorRule maps images to the registry from which the runtime pulls them.
type MirrorRule struct {
	Source string // the beginning of the images: a host, or a host and a path
	Target string // host[:port] of the registry
	Path   string // the path of the images in the registry; "" at its root
}

// MirrorOrigin states whether the original host of mirrored images may receive
// the credential. It is the value of the flag --mirror-origin; "" allows only
// hosts of the plugin's own cloud.
//
// The kubelet matches the image's original name, and containerd sends the
// credential to each host that responds with 401: to the mirrors, and to the
// original host if they fail.
type MirrorOrigin string

// The values of --mirror-origin.
const (
	OriginNone    MirrorOrigin = "none"    // the runtime never falls back to the host
	OriginTrusted MirrorOrigin = "trusted" // the host may receive the credential
)

// MarshalText returns the value as the flag takes it.
func (o MirrorOrigin) MarshalText() ([]byte, error) { return []byte(o), nil }

// UnmarshalText sets the value, which must be one of the constants.
func (o *MirrorOrigin) UnmarshalText(text []byte) error {
	switch v := MirrorOrigin(text); v {
	case OriginNone, OriginTrusted:
		*o = v
		return nil
	}
	return fmt.Errorf("must be %s or %s", OriginNone, OriginTrusted)
}

// MirrorOptions describe the plugin that serves the mirrors.
type MirrorOptions struct {
	Own    func(host string) bool // whether the plugin serves host[:port]
	Target func(host string) bool // whether host[:port] may be a target; nil means Own
	Owner  string                 // in errors: "Amazon ECR"
	Origin string                 // a MirrorOrigin
}

// Mirrors is a set of rules. The zero value is empty.
type Mirrors struct {
	rules []MirrorRule // the longest source first
}

// ParseMirrors parses rules of the form SOURCE=TARGET[/PATH], such as
// docker.io=111122223333.dkr.ecr.eu-west-1.amazonaws.com/hub. It rejects rules
// that would send a credential to a third party, and rules that conflict.
func ParseMirrors(entries []string, opts MirrorOptions) (Mirrors, error) {
	var m Mirrors
	if opts.Origin != "" {
		if err := new(MirrorOrigin).UnmarshalText([]byte(opts.Origin)); err != nil {
			return m, fmt.Errorf("--mirror-origin %q: %w", opts.Origin, err)
		}
	}
	for _, entry := range entries {
		r, err := parseRule(entry)
		if err == nil {
			err = r.check(opts)
		}
		at := slices.IndexFunc(m.rules, func(o MirrorRule) bool { return o.Source == r.Source })
		if err == nil && at >= 0 && m.rules[at] != r {
			err = errors.New("the source already has another target; use one target per source")
		}
		if err != nil {
			return Mirrors{}, fmt.Errorf("mirror %q: %w", entry, err)
		}
		if at >= 0 {
			continue // a duplicate
		}
		m.rules = append(m.rules, r)
	}
	slices.SortStableFunc(m.rules, func(a, b MirrorRule) int { return cmp.Compare(len(b.Source), len(a.Source)) })
	for _, r := range m.rules {
		if next, ok := m.Find(r.image()); ok {
			return Mirrors{}, fmt.Errorf("mirror \"%s=%s\": the target is also the source of \"%s=%s\"; set the target to the registry that has the images",
				r.Source, r.image(), next.Source, next.image())
		}
	}
	return m, nil
}

// parseRule parses one rule. It lower-cases hosts, but not paths.
func parseRule(entry string) (MirrorRule, error) {
	source, target, ok := strings.Cut(entry, "=")
	if !ok || strings.Contains(target, "=") {
		return MirrorRule{}, errors.New("must be SOURCE=TARGET, such as docker.io=REGISTRY")
	}
	fromHost, fromPath, err := cutHost(source)
	if err != nil {
		return MirrorRule{}, fmt.Errorf("source %q: %w", source, err)
	}
	toHost, toPath, err := cutHost(target)
	if err != nil {
		return MirrorRule{}, fmt.Errorf("target %q: %w", target, err)
	}
	if fromHost == HubIndex || fromHost == HubServer {
		return MirrorRule{}, fmt.Errorf("source %q: use docker.io, the kubelet's name for Docker Hub", source)
	}
	return MirrorRule{Source: join(fromHost, fromPath), Target: toHost, Path: toPath}, nil
}

// cutHost splits host[:port][/path], which must not have wildcards.
func cutHost(s string) (host, path string, err error) {
	host, path, hasPath := strings.Cut(strings.TrimRight(s, "/"), "/")
	host = strings.ToLower(host)
	switch {
	case strings.Contains(s, "://"):
		return "", "", errors.New("remove the scheme")
	case strings.Contains(s, "*"):
		return "", "", errors.New("wildcards are not supported; list each host")
	case hostpattern.Validate(host) != nil || !strings.ContainsAny(host, ".:"):
		return "", "", errors.New("must begin with host[:port]")
	case hasPath && (strings.ContainsAny(path, ":@ ?#") || strings.Contains("/"+path+"/", "//")):
		return "", "", errors.New("the path must be a repository path without a tag or digest")
	}
	return host, path, nil
}

// check rejects a rule that would send a credential to a third party.
func (r MirrorRule) check(opts MirrorOptions) error {
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
			"(regcred doctor checks whether it can), or --mirror-origin=%s if %s is allowed to receive the credential", source, OriginNone, OriginTrusted, source)
	}
	return nil
}

// image returns the beginning of the images in the target.
func (r MirrorRule) image() string { return join(r.Target, r.Path) }

func join(host, path string) string {
	if path == "" {
		return host
	}
	return host + "/" + path
}

// Rules returns the rules in the order in which Find tries them.
func (m Mirrors) Rules() []MirrorRule { return slices.Clone(m.rules) }

// Sources returns the sources as patterns for matchImages.
func (m Mirrors) Sources() (list []string) {
	for _, r := range m.rules {
		list = append(list, r.Source)
	}
	return list
}

// Find returns the rule with the longest source that covers an image.
func (m Mirrors) Find(image string) (MirrorRule, bool) {
	for _, r := range m.rules {
		if r.covers(image) {
			return r, true
		}
	}
	return MirrorRule{}, false
}

// covers reports whether an image begins with the source, at the end of a path
// component.
func (r MirrorRule) covers(image string) bool {
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

// Divides reports whether some rules cover only a part of host[:port]. Then a
// response is valid for one image only, and an image outside the part gets an
// empty response instead of an error.
func (m Mirrors) Divides(host string) bool {
	host = strings.ToLower(host)
	return slices.ContainsFunc(m.rules, func(r MirrorRule) bool { return strings.HasPrefix(r.Source, host+"/") })
}

// Scope returns the cache key type of a response for an image of the host.
func (m Mirrors) Scope(host string) plugin.CacheKeyType {
	if m.Divides(host) {
		return plugin.CacheImage
	}
	return plugin.CacheRegistry
}

// FlagValue is the value of a flag in a list of arguments.
type FlagValue struct {
	Index int // of the argument that names the flag
	Value string
}

// FlagValues returns the values of a flag. names are the flag's names with their
// dashes. The value of a short flag may follow its letter directly, as in -rVALUE.
func FlagValues(args []string, names ...string) (found []FlagValue) {
	for k, arg := range args {
		flag, value, hasValue := strings.Cut(arg, "=")
		if short := arg[:min(len(arg), 2)]; flag != short && slices.Contains(names, short) {
			flag, value, hasValue = short, arg[2:], true
		}
		if !slices.Contains(names, flag) {
			continue
		}
		if !hasValue && k+1 < len(args) {
			value = args[k+1]
		}
		found = append(found, FlagValue{k, value})
	}
	return found
}

// MirrorArg is a mirror in the arguments of a cloud's plugin.
type MirrorArg struct {
	Index   int    // of the argument
	Source  string // the beginning of the images
	Host    string // the host of Source, in lower case
	Foreign bool   // whether the host belongs to neither the cloud nor its operator
}

// maxMirrorSource bounds a source in bytes; longer ones are ignored.
const maxMirrorSource = 1 << 10

// MirrorArgs returns the valid mirrors in the arguments of the cloud's plugin:
// the values of --mirror and of both forms of Azure's --registry-mirror.
func (c *Cloud) MirrorArgs(args []string) (list []MirrorArg) {
	for _, arg := range FlagValues(args, "--mirror", "--registry-mirror", "-r") {
		for entry := range strings.SplitSeq(arg.Value, ",") {
			source, _, found := strings.Cut(entry, "=")
			if !found {
				source, _, found = strings.Cut(entry, ":")
			}
			source = strings.TrimSpace(source)
			host, _, _ := strings.Cut(source, "/")
			if host = strings.ToLower(host); !found || host == "" || len(source) > maxMirrorSource {
				continue
			}
			own := c.Reach(host) == Own || c.Name == Azure && host == MicrosoftHost
			list = append(list, MirrorArg{arg.Index, source, host, !own})
		}
	}
	return list
}
