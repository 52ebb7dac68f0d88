// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/cloudplugin"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/family"
	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/mirror"
	"github.com/regcred/regcred/match"
)

// The rules of this file are about the clouds' registries and their plugins,
// upstream's and regcred's, which go by the same names.

// ruleOtherHosts is about patterns that reach hosts of strangers.
func ruleOtherHosts(p *config.Provider) (rs []remark) {
	cloud := cloudplugin.Named(p.Name)
	if cloud == nil || len(flagValues(p, "--other-hosts", "--any-host")) > 0 {
		return nil
	}
	patterns := listOf(p.MatchImages)
	for k, pattern := range p.MatchImages {
		if patterns.rung(pattern) && pattern != patterns.rungs[0] {
			continue // said of the ladder
		}
		if len(pattern) > maxReachLength || cloudplugin.Host(pattern) == "" || cloud.Reach(pattern) != cloudplugin.Wide {
			continue
		}
		rs = and(rs, within(config.FieldPath{"matchImages", k},
			"list the exact hosts, or pass regcred's plugin --other-hosts="+string(hostpattern.EmptyOthers),
			"%q also matches hosts that do not belong to %s: regcred's plugin fails for these hosts, but the Amazon and Google plugins return a password",
			excerpt.Value(excerpt.Pattern(pattern)), cloud.Owner)...)
	}
	return rs
}

// ruleNoSuchRegistry is about patterns with the marks of registries whose hosts
// have a form of their own, and in which no host of theirs fits. Images could
// still be named so, hence it is no error.
func ruleNoSuchRegistry(w *written) []remark {
	if !w.valid || len(w.raw) > maxReachLength || !matchable(w.mended) {
		return nil
	}
	stray, ok := family.Check(w.mended)
	instead := w.mended
	if instead.Host, instead.Port = stray.Instead, ""; !ok || w.lists(instead.String()) {
		return nil // or there is nothing to mend
	}
	return say(instead.String(), "%q does not match any %s host: the nearest form is %s, but %s", w.shown, stray.Owner, stray.Form, stray.Reason)
}

// mirrors are those among the arguments of a cloud's plugin.
func mirrors(p *config.Provider) []cloudplugin.Mirror {
	if cloud := cloudplugin.Named(p.Name); cloud != nil {
		return cloud.Mirrors(p.Arguments())
	}
	return nil
}

// ruleMirrorOrigin says who else is shown the credential of a mirror.
func ruleMirrorOrigin(p *config.Provider) (rs []remark) {
	if slices.ContainsFunc(flagValues(p, "--mirror-origin"), func(a cloudplugin.Argument) bool { return a.Value == string(mirror.OriginNone) }) {
		return nil
	}
	for _, m := range mirrors(p) {
		if !m.Strange {
			continue
		}
		rs = and(rs, within(config.FieldPath{"args", m.Arg},
			"set server in hosts.toml to the mirror, and pass --mirror-origin="+string(mirror.OriginNone),
			"the original registry can receive this credential: containerd sends it there if the mirror fails, "+
				"and CRI-O and podman send it only to that registry")...)
	}
	return rs
}

// ruleMirrorNotAsked is about a map for images of which the plugin never hears.
func ruleMirrorNotAsked(p *config.Provider) (rs []remark) {
	for _, m := range mirrors(p) {
		asked := slices.ContainsFunc(p.MatchImages, func(pattern string) bool {
			at, err := match.ParseLocation(pattern)
			return err == nil && hostpattern.Match(cloudplugin.Host(pattern), m.Host) && begins(strings.TrimPrefix(m.Source, m.Host), at.Path)
		})
		if !asked {
			rs = and(rs, within(config.FieldPath{"args", m.Arg}, "add the mirrored registry to matchImages",
				"the kubelet never runs the plugin for these images, because no pattern in matchImages matches the mirrored registry")...)
		}
	}
	return rs
}

// begins reports whether one of two paths begins with the other.
func begins(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

func flagValues(p *config.Provider, names ...string) []cloudplugin.Argument {
	return cloudplugin.Flag(p.Arguments(), names...)
}
