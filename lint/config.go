// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/match"
)

// configRules are the rules for a configuration as a whole.
func configRules() []rule[*whole] {
	return []rule[*whole]{
		{"second-document", SeverityError, ruleSecondDocument},
		{"predecessor-config", SeverityWarning, rulePredecessorConfig},
		{"old-config-version", SeverityWarning, ruleOldConfigVersion},
		{"writable-config", SeverityWarning, ruleWritableConfig},
		{"overlapping-providers", SeverityWarning, ruleOverlappingProviders},
		{"shared-pattern", SeverityInfo, ruleSharedPattern},
	}
}

// whole is a configuration and what several rules need to know of it.
type whole struct {
	*config.Config
	overlaps []overlap
}

// reader is the program that reads a file and runs the plugins in it.
type reader string

const (
	theKubelet reader = "the kubelet"
	weAlone    reader = "regcred" // of the predecessor's files
)

func readerOf(predecessor bool) reader {
	if predecessor {
		return weAlone
	}
	return theKubelet
}

// reader is the kubelet if it reads any of c's providers.
func readerOfAny(c *config.Config) reader {
	notOurs := slices.ContainsFunc(c.Providers, func(p config.Provider) bool { return !p.Predecessor() })
	return readerOf(!notOurs && len(c.Providers) > 0)
}

// runs is what a person decides who can write to a file.
func (r reader) runs() string {
	if r == theKubelet {
		return "the kubelet runs as root"
	}
	return "regcred runs"
}

// fails is what happens for want of an executable.
func (r reader) fails() string {
	if r == theKubelet {
		return "the kubelet exits"
	}
	return "regcred cannot run the plugin"
}

// inFile returns one remark about a file at large.
func inFile(name string, line int, suggestion, format string, args ...any) []remark {
	return inDocument(config.Position{File: name, Line: line}, suggestion, format, args...)
}

// inDocument returns one remark about what is not in a provider.
func inDocument(where config.Position, suggestion, format string, args ...any) []remark {
	rs := say(suggestion, format, args...)
	rs[0].at = spot{elsewhere: true, where: where}
	return rs
}

func ruleSecondDocument(c *whole) (rs []remark) {
	for _, f := range c.Files() {
		if line := secondDocument(f); line > 0 {
			rs = append(rs, inFile(f.Name, line, "put the providers into one list, or into files of a directory",
				"what begins here is a second YAML document, which %s ignores without a word", readerOf(f.Predecessor()))...)
		}
	}
	return rs
}

// secondDocument returns the line on which a second YAML document begins that
// is not empty, or 0.
func secondDocument(f *config.File) int {
	if f.IsJSON() || !bytes.Contains(f.Data, []byte("---")) {
		return 0
	}
	dec := yaml.NewDecoder(bytes.NewReader(f.Data))
	var first yaml.Node
	if dec.Decode(&first) != nil {
		return 0
	}
	for {
		var doc yaml.Node
		if dec.Decode(&doc) != nil {
			return 0
		}
		if len(doc.Content) > 0 && doc.Content[0].Tag != "!!null" {
			return doc.Content[0].Line
		}
	}
}

func rulePredecessorConfig(c *whole) (rs []remark) {
	for _, f := range c.Files() {
		if f.Predecessor() {
			rs = append(rs, inDocument(f.Position("kind"), "convert it with regcred convert",
				"regcred reads files of kind %s, and no kubelet does: one that is given it does not start", f.Kind)...)
		}
	}
	return rs
}

func ruleOldConfigVersion(c *whole) (rs []remark) {
	for _, f := range c.Files() {
		if f.APIVersion != config.V1Alpha1 && f.APIVersion != config.V1Beta1 {
			continue
		}
		rs = append(rs, inDocument(f.Position("apiVersion"), config.V1, "%s is superseded by v1, which kubelets read since 1.26 and which alone has tokenAttributes", f.APIVersion)...)
	}
	return rs
}

func ruleWritableConfig(c *whole) (rs []remark) {
	if path, dir := c.Path(); dir {
		if who := writableByOthers(path, false); who != "" {
			return inFile(path, 0, "make the directory writable by its owner alone", "%s, so that others decide what %s", who, readerOfAny(c.Config).runs())
		}
	}
	said := map[string]bool{} // a directory above several files
	for _, f := range c.Files() {
		name := f.Name
		if who := tamperable(name, anyOwner); who != "" && !said[who] {
			said[who] = true
			rs = append(rs, inFile(name, 0, "make the file and the directories above it writable by their owner alone", "%s, so that others decide what %s", who, readerOf(f.Predecessor()).runs())...)
		}
	}
	return rs
}

// reach is a pattern that can match, and where it stands in matchImages.
type reach struct {
	index  int
	text   string
	at     match.Location
	labels []string // of the host
}

func (r reach) shown() string { return excerpt.Value(excerpt.Pattern(r.text)) }

// reachOf returns those patterns of a provider that can match.
func reachOf(p *config.Provider) []reach {
	var rs []reach
	for k, s := range p.MatchImages {
		if at, err := match.ParseLocation(s); err == nil && matchable(at) {
			rs = append(rs, reach{k, s, at, strings.Split(at.Host, ".")})
		}
	}
	return rs
}

// maxOverlaps bounds how many other providers one is reported to overlap with.
const maxOverlaps = 10

// overlap is a pair of providers that share an image, with patterns that match
// it; they differ if any such patterns do.
type overlap struct {
	a, b   int // providers; b is the later one
	pa, pb reach
	image  string
}

func overlapsOf(c *config.Config) (found []overlap) {
	reaches := make([][]reach, len(c.Providers))
	for i := range c.Providers {
		reaches[i] = reachOf(&c.Providers[i])
	}
	budget := maxComparisons
	for b := range reaches {
		first := len(found)
		for a := 0; a < b && len(found)-first < maxOverlaps; a++ {
			if pa, pb, image := firstOverlap(reaches[a], reaches[b], &budget); image != "" {
				found = append(found, overlap{a, b, pa, pb, image})
			}
		}
	}
	return found
}

// remark is about the later provider's pattern.
func (o *overlap) remark(format string, args ...any) remark {
	return remark{at: spot{provider: o.b, rest: config.FieldPath{"matchImages", o.pb.index}}, message: fmt.Sprintf(format, args...)}
}

// ruleOverlappingProviders reports a pair of providers once.
func ruleOverlappingProviders(c *whole) (rs []remark) {
	for _, o := range c.overlaps {
		if first := excerpt.Value(c.Providers[o.a].Name); o.pa.text != o.pb.text {
			rs = append(rs, o.remark("%q also matches %s, which %q of provider %q matches: both plugins run, and what %q returns is tried first for the same auth key",
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
			rs = append(rs, o.remark("provider %q has the pattern %q too: both plugins run for each of its images, and what %q returns is tried first for the same auth key",
				first, o.pb.shown(), first))
		}
	}
	return rs
}

func firstOverlap(as, bs []reach, budget *int) (pa, pb reach, image string) {
	for _, b := range bs {
		for _, a := range as {
			if *budget--; *budget < 0 {
				return pa, pb, image
			}
			if !mayMeet(a.labels, b.labels) {
				continue
			}
			example := exampleImage(a.at, b.at)
			if example == "" || image != "" && a.text == b.text {
				continue
			}
			if pa, pb, image = a, b, example; a.text != b.text {
				return pa, pb, image
			}
		}
	}
	return pa, pb, image
}
