// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/lint/internal/imagename"
	"github.com/regcred/regcred/lint/internal/rules"
)

// checkOtherHosts reports patterns of a cloud provider's plugin that also match hosts outside the
// cloud. The upstream plugins have the same names as regcred's plugins, so both are checked.
func checkOtherHosts(p *config.Provider) (rs []rules.Result) {
	cloud := registry.CloudOfPlugin(p.Name)
	if cloud == nil || len(flagValues(p, "--other-hosts", "--any-host")) > 0 {
		return nil
	}
	patterns := newPatternList(p.MatchImages)
	for k, pattern := range p.MatchImages {
		if patterns.isInCatchAll(pattern) && pattern != patterns.catchAll[0] {
			continue // a catch-all is reported once, for its first pattern
		}
		if len(pattern) > maxPatternLength || unfilledParts(pattern) != nil || registry.PatternHost(pattern) == "" || cloud.ClassifyPattern(pattern) != registry.ScopeMixed {
			continue
		}
		rs = append(rs, rules.NewFieldResult(fmt.Sprintf("matchImages[%d]", k),
			"list the exact hosts, or pass regcred's plugin --other-hosts="+string(registry.OtherHostsEmpty),
			"%q also matches hosts that do not belong to %s: regcred's plugin fails for these hosts, but the Amazon and Google plugins return a password",
			excerpt.TruncateValue(excerpt.RedactPattern(pattern)), cloud.Owner)...)
	}
	return rs
}

// checkNoSuchRegistry reports patterns that resemble the hosts of a known registry service but
// match none of them. The finding is only a warning, because another registry can use such a host
// name.
func checkNoSuchRegistry(p *pattern) []rules.Result {
	if !p.valid || len(p.raw) > maxPatternLength || !imagename.IsMatchable(p.repaired) {
		return nil
	}
	near, ok := registry.CheckPatternForm(p.repaired.Host, p.repaired.Port)
	instead := p.repaired
	if instead.Host, instead.Port = near.Suggestion, ""; !ok || p.hasSibling(instead.String()) {
		return nil
	}
	return rules.NewResult(instead.String(), "%q does not match any %s host: the most similar host form is %s, but %s", p.redacted, near.Owner, near.HostForm, near.Reason)
}

func mirrorArgs(p *config.Provider) []registry.MirrorArg {
	if cloud := registry.CloudOfPlugin(p.Name); cloud != nil {
		return cloud.MirrorArgs(p.Arguments())
	}
	return nil
}

// checkMirrorOrigin reports arguments for a mirror whose credential the container runtime could
// send to the original registry.
func checkMirrorOrigin(p *config.Provider) (rs []rules.Result) {
	if slices.ContainsFunc(flagValues(p, "--mirror-origin"), func(a registry.FlagValue) bool { return a.Value == string(registry.OriginNone) }) {
		return nil
	}
	for _, m := range mirrorArgs(p) {
		if !m.Foreign {
			continue
		}
		rs = append(rs, rules.NewFieldResult(fmt.Sprintf("args[%d]", m.Index),
			"set server in hosts.toml to the mirror, and pass --mirror-origin="+string(registry.OriginNone),
			"the original registry can receive this credential: containerd sends it there if the mirror fails, "+
				"while CRI-O and podman send it only to the original registry")...)
	}
	return rs
}

// checkUnmatchedMirror reports arguments for mirrors of registries that matchImages does not match.
func checkUnmatchedMirror(p *config.Provider) (rs []rules.Result) {
	for _, m := range mirrorArgs(p) {
		matched := slices.ContainsFunc(p.MatchImages, func(pattern string) bool {
			at, err := location.Parse(pattern)
			return err == nil && hostpattern.Match(registry.PatternHost(pattern), m.Host) && eitherIsPrefix(strings.TrimPrefix(m.Source, m.Host), at.Path)
		})
		if !matched {
			rs = append(rs, rules.NewFieldResult(fmt.Sprintf("args[%d]", m.Index), "add the mirrored registry to matchImages",
				"the kubelet never runs the plugin for these images, because no pattern in matchImages matches the mirrored registry")...)
		}
	}
	return rs
}

// eitherIsPrefix reports whether one of two strings is a prefix of the other.
func eitherIsPrefix(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

func flagValues(p *config.Provider, names ...string) []registry.FlagValue {
	return registry.FlagValues(p.Arguments(), names...)
}
