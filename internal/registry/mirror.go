// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/plugin"
)

// MirrorRule is a mirror: the runtime pulls images that begin with Source from Target.
type MirrorRule struct {
	Source string // a host, or a host and a path
	Target string // host[:port] of the registry
	Path   string // path in the registry; "" means the root
}

// MirrorOrigin specifies whether the original host of mirrored images may receive the credential.
// It is the value of the flag --mirror-origin. "" allows only original hosts in the plugin's own
// cloud.
//
// The kubelet looks up credentials by the original name of the image. containerd sends the
// credential to each host that responds with 401. These are the mirrors and, if all mirrors fail,
// the original host.
type MirrorOrigin string

// Values of --mirror-origin.
const (
	OriginNone    MirrorOrigin = "none"    // the runtime never falls back to the original host
	OriginTrusted MirrorOrigin = "trusted" // the original host may receive the credential
)

// MarshalText returns the value in the flag's format.
func (o MirrorOrigin) MarshalText() ([]byte, error) { return []byte(o), nil }

// UnmarshalText sets the value. It rejects values that are not constants of this type.
func (o *MirrorOrigin) UnmarshalText(text []byte) error {
	switch v := MirrorOrigin(text); v {
	case OriginNone, OriginTrusted:
		*o = v
		return nil
	}
	return fmt.Errorf("must be %s or %s", OriginNone, OriginTrusted)
}

// MirrorOptions describes the plugin that serves the mirrors.
type MirrorOptions struct {
	IsServed        func(host string) bool // reports whether the plugin serves host[:port]
	IsAllowedTarget func(host string) bool // reports whether host[:port] may be a target; nil means IsServed
	Owner           string                 // name for error messages, such as "Amazon ECR"
	Origin          string                 // a MirrorOrigin
}

// Mirrors is a set of mirrors. The zero value is empty.
type Mirrors struct {
	rules []MirrorRule // longest source first
}

// ParseMirrors parses mirrors of the form SOURCE=TARGET[/PATH], such as
// docker.io=111122223333.dkr.ecr.eu-west-1.amazonaws.com/hub. It rejects conflicting mirrors, and
// mirrors that would send a credential to a third party.
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
			err = r.validateRule(opts)
		}
		at := slices.IndexFunc(m.rules, func(o MirrorRule) bool { return o.Source == r.Source })
		if err == nil && at >= 0 && m.rules[at] != r {
			err = errors.New("the source already has another target; use one target per source")
		}
		if err != nil {
			return Mirrors{}, fmt.Errorf("mirror %q: %w", redactMirror(entry), err)
		}
		if at >= 0 {
			continue // a duplicate
		}
		m.rules = append(m.rules, r)
	}
	slices.SortStableFunc(m.rules, func(a, b MirrorRule) int { return cmp.Compare(len(b.Source), len(a.Source)) })
	for _, r := range m.rules {
		if next, ok := m.Find(r.targetPrefix()); ok {
			return Mirrors{}, fmt.Errorf("mirror \"%s=%s\": the target is also the source of \"%s=%s\"; set the target to the registry that has the images",
				r.Source, r.targetPrefix(), next.Source, next.targetPrefix())
		}
	}
	return m, nil
}

// redactMirror hides user information in a mirror.
func redactMirror(entry string) string {
	source, target, ok := strings.Cut(entry, "=")
	if !ok {
		return excerpt.RedactAddress(entry)
	}
	return excerpt.RedactAddress(source) + "=" + excerpt.RedactAddress(target)
}

// parseRule parses one mirror. It converts hosts to lower case, but not paths.
func parseRule(entry string) (MirrorRule, error) {
	source, target, ok := strings.Cut(entry, "=")
	if !ok || strings.Contains(target, "=") {
		return MirrorRule{}, errors.New("must be SOURCE=TARGET, such as docker.io=REGISTRY")
	}
	fromHost, fromPath, err := splitHostPath(source)
	if err != nil {
		return MirrorRule{}, fmt.Errorf("source %q: %w", excerpt.RedactAddress(source), err)
	}
	toHost, toPath, err := splitHostPath(target)
	if err != nil {
		return MirrorRule{}, fmt.Errorf("target %q: %w", excerpt.RedactAddress(target), err)
	}
	if fromHost == DockerHubIndex || fromHost == DockerHubServer {
		return MirrorRule{}, fmt.Errorf("source %q: use docker.io, the kubelet's name for Docker Hub", source)
	}
	return MirrorRule{Source: joinHostPath(fromHost, fromPath), Target: toHost, Path: toPath}, nil
}

// splitHostPath splits host[:port][/path]. It rejects wildcards.
func splitHostPath(s string) (host, path string, err error) {
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

// validateRule rejects a rule that would send a credential to a third party.
func (r MirrorRule) validateRule(opts MirrorOptions) error {
	source, _, _ := strings.Cut(r.Source, "/")
	target := opts.IsAllowedTarget
	if target == nil {
		target = opts.IsServed
	}
	switch {
	case !target(r.Target):
		return fmt.Errorf("the target %s is not part of %s; allow it with --allow-host", r.Target, opts.Owner)
	case opts.Origin == "" && !opts.IsServed(source):
		return fmt.Errorf("if the runtime falls back to %s, it sends this credential there; set --mirror-origin=%s if the runtime cannot fall back "+
			"(regcred doctor checks whether it can), or --mirror-origin=%s if %s is allowed to receive the credential", source, OriginNone, OriginTrusted, source)
	}
	return nil
}

// targetPrefix returns the prefix of the image names at the target.
func (r MirrorRule) targetPrefix() string { return joinHostPath(r.Target, r.Path) }

func joinHostPath(host, path string) string {
	if path == "" {
		return host
	}
	return host + "/" + path
}

// Rules returns the rules in the order in which Find tries them.
func (m Mirrors) Rules() []MirrorRule { return slices.Clone(m.rules) }

// Sources returns all sources, for use as matchImages patterns.
func (m Mirrors) Sources() (list []string) {
	for _, r := range m.rules {
		list = append(list, r.Source)
	}
	return list
}

// Find returns the rule with the longest source that matches an image.
func (m Mirrors) Find(image string) (MirrorRule, bool) {
	for _, r := range m.rules {
		if r.coversImage(image) {
			return r, true
		}
	}
	return MirrorRule{}, false
}

// coversImage reports whether the image is the source or begins with it. The source must end at the end
// of a path component.
func (r MirrorRule) coversImage(image string) bool {
	image = trimScheme(image)
	host, path, _ := strings.Cut(image, "/")
	rest, ok := strings.CutPrefix(joinHostPath(strings.ToLower(host), path), r.Source)
	switch {
	case !ok:
		return false
	case rest == "" || rest[0] == '/' || rest[0] == '@':
		return true
	}
	return rest[0] == ':' && strings.Contains(r.Source, "/") // after a path, a colon starts a tag; after a host, a port
}

// TrimReference returns an image without scheme, tag and digest. The kubelet does not send these
// parts, but users who test a plugin may.
func TrimReference(image string) string {
	image, _, _ = strings.Cut(trimScheme(image), "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') && strings.Contains(image, "/") {
		image = image[:i]
	}
	return image
}

func trimScheme(image string) string {
	if _, rest, found := strings.Cut(image, "://"); found {
		return rest
	}
	return image
}

// CoversPartOf reports whether only part of host[:port] is mirrored. In this case a response is
// valid for one image only. An image outside the mirrored part gets an empty response instead of an
// error.
func (m Mirrors) CoversPartOf(host string) bool {
	host = strings.ToLower(host)
	return slices.ContainsFunc(m.rules, func(r MirrorRule) bool { return strings.HasPrefix(r.Source, host+"/") })
}

// CacheKeyType returns the cache key type of responses for images on host.
func (m Mirrors) CacheKeyType(host string) plugin.CacheKeyType {
	if m.CoversPartOf(host) {
		return plugin.CacheImage
	}
	return plugin.CacheRegistry
}

// FlagValue is a flag's value in a list of arguments.
type FlagValue struct {
	Index int // index of the argument with the flag's name
	Value string
}

// FlagValues returns the values of a flag. names lists the flag's names with dashes. The value of a
// short flag may follow without a space, as in -rVALUE.
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

// MirrorArg is a mirror configured in the arguments of a cloud provider's plugin.
type MirrorArg struct {
	Index   int    // index of the argument
	Source  string // prefix of the image names
	Host    string // host of Source, in lower case
	Foreign bool   // the host belongs to neither the cloud nor its operator
}

// maxMirrorSource limits the length of a source in bytes. Longer sources are ignored.
const maxMirrorSource = 1 << 10

// MirrorArgs returns the valid mirrors in the arguments of a cloud provider's plugin. It supports
// --mirror and both forms of Azure's --registry-mirror.
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
			own := c.ClassifyPattern(host) == ScopeOwn || c.Name == Azure && host == MicrosoftHost
			list = append(list, MirrorArg{arg.Index, source, host, !own})
		}
	}
	return list
}
