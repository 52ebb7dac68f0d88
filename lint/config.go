// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/excerpt"
)

// configRules are the rules for a configuration as a whole.
func configRules() []rule[*whole] {
	return []rule[*whole]{
		{"second-document", finding.SeverityError, ruleSecondDocument},
		{"predecessor-config", finding.SeverityWarning, rulePredecessorConfig},
		{"old-config-version", finding.SeverityWarning, ruleOldConfigVersion},
		{"writable-config", finding.SeverityWarning, ruleWritableConfig},
		{"overlapping-providers", finding.SeverityWarning, ruleOverlappingProviders},
		{"shared-pattern", finding.SeverityInfo, ruleSharedPattern},
	}
}

// whole is a configuration and what several rules need to know of it.
type whole struct {
	*config.Config
	overlaps []overlap
}

func ruleSecondDocument(c *whole) (rs []remark) {
	for _, f := range c.Files() {
		if _, line := f.Document(); line > 0 {
			rs = and(rs, inFile(f.Name, line, "merge the providers into one list, or split them into files in a directory",
				"a second YAML document begins here, and %s silently ignores it", readerOf(f.Predecessor()))...)
		}
	}
	return rs
}

func rulePredecessorConfig(c *whole) (rs []remark) {
	for _, f := range c.Files() {
		if f.Predecessor() {
			rs = and(rs, inDocument(f.Position("kind"), "run regcred convert",
				"only regcred supports kind %s, so the kubelet does not start with this file", f.Kind)...)
		}
	}
	return rs
}

func ruleOldConfigVersion(c *whole) (rs []remark) {
	for _, f := range c.Files() {
		if f.APIVersion != config.V1Alpha1 && f.APIVersion != config.V1Beta1 {
			continue
		}
		rs = and(rs, inDocument(f.Position("apiVersion"), config.V1, "%s is superseded by v1, which kubelet 1.26 and later support; tokenAttributes requires v1", f.APIVersion)...)
	}
	return rs
}

func ruleWritableConfig(c *whole) (rs []remark) {
	if path, dir := c.Path(); dir {
		if who := writableByOthers(path, false); who != "" {
			return inFile(path, 0, "make the directory writable only by its owner", "%s, so other users can change what %s", who, readerOfAny(c.Config).runs())
		}
	}
	said := map[string]bool{} // a directory above several files
	for _, f := range c.Files() {
		name := f.Name
		if who := tamperable(name, anyOwner); who != "" && !said[who] {
			said[who] = true
			rs = and(rs, inFile(name, 0, "make the file and its parent directories writable only by their owner", "%s, so other users can change what %s", who, readerOf(f.Predecessor()).runs())...)
		}
	}
	return rs
}

// ruleOverlappingProviders reports a pair of providers once.
func ruleOverlappingProviders(c *whole) (rs []remark) {
	for _, o := range c.overlaps {
		if first := excerpt.Value(c.Providers[o.a].Name); o.pa.text != o.pb.text {
			rs = and(rs, o.remark("%q also matches %s, as does %q from provider %q: both plugins run, and credentials from %q are tried first for the same auth key",
				o.pb.shown(), o.image, o.pa.shown(), first, first))
		}
	}
	return rs
}

// ruleSharedPattern reports providers that overlap only in patterns that both
// have, which is rather meant than a slip: each once, with the first other.
func ruleSharedPattern(c *whole) (rs []remark) {
	reported := map[int]bool{}
	for _, o := range c.overlaps {
		if first := excerpt.Value(c.Providers[o.a].Name); o.pa.text == o.pb.text && !reported[o.b] {
			reported[o.b] = true
			rs = and(rs, o.remark("provider %q also has the pattern %q: both plugins run for its images, and credentials from %q are tried first for the same auth key",
				first, o.pb.shown(), first))
		}
	}
	return rs
}
