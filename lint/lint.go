// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/lint/internal/rules"
	"github.com/regcred/regcred/plugin"
)

// Check returns findings about mistakes in c that the kubelet accepts, sorted by file and line.
// Findings contain no values from env and args, and no user info or query from patterns.
func Check(c *config.Config) []finding.Finding {
	var found rules.Collector
	overlaps := findOverlaps(c)
	rules.Apply(&found, configRules(), c, nil)
	for i := range c.Providers {
		p := &c.Providers[i]
		at := newLocator(c, i, "")
		rules.Apply(&found, overlapRules(c, overlaps), i, at)
		rules.Apply(&found, providerRules(), p, at)
		siblings := newPatternList(p.MatchImages)
		for k := range p.MatchImages {
			list := patternRules()
			if unfilledParts(p.MatchImages[k]) != nil {
				list = unfilledPatternRules()
			}
			rules.Apply(&found, list, parsePattern(p, k, siblings), newLocator(c, i, fmt.Sprintf("matchImages[%d]", k)))
		}
	}
	return found.SortedFindings(fileNames(c)...)
}

// BinDir checks the plugin directory newBinDir, the executables of c's providers in it, and the files
// that args and env refer to. It does not run executables.
func BinDir(c *config.Config, binDir string) []finding.Finding {
	var found rules.Collector
	dir := newBinDirectory(c, binDir)
	rules.Apply(&found, binDirRules(), dir, nil)
	if dir.err != nil {
		return found.SortedFindings(fileNames(c)...)
	}
	for i := range c.Providers {
		p := &c.Providers[i]
		rules.Apply(&found, fileRules(), p, newLocator(c, i, ""))
		if config.CheckName(p.Name) == nil {
			b := newProgram(binDir, p.Name, runnerForConfig(p.APIVersion == plugin.OutOfTree), func(name string) bool { return hasProvider(c, name) })
			rules.Apply(&found, binaryRules(), b, newLocator(c, i, "name"))
		}
	}
	return found.SortedFindings(fileNames(c)...)
}

// Binary checks one executable with the same rules as [BinDir]. The File field of the findings is
// path.
func Binary(path string) []finding.Finding {
	var found rules.Collector
	b := newProgram(filepath.Dir(path), filepath.Base(path), runnerForConfig(false), nil)
	rules.Apply(&found, binaryRules(), b, func(string) finding.Finding { return finding.Finding{File: path} })
	return found.SortedFindings()
}

// Rules returns the sorted names of all rules. docs/lint/README.md explains them.
func Rules() []string {
	names := slices.Concat(rules.Names(configRules()), rules.Names(overlapRules(nil, nil)), rules.Names(providerRules()),
		rules.Names(patternRules()), rules.Names(binDirRules()), rules.Names(fileRules()), rules.Names(binaryRules()),
		[]string{config.KnownFaultRule})
	slices.Sort(names)
	return slices.Compact(names)
}

// newLocator returns a function that finds the position of a provider's field. The function's
// argument is relative to base.
func newLocator(c *config.Config, provider int, base string) func(string) finding.Finding {
	return func(field string) finding.Finding {
		f := rules.FindingAt(c.Position(provider, strings.Trim(base+"."+field, ".")))
		f.Provider = c.Providers[provider].Name
		return f
	}
}

func fileNames(c *config.Config) (names []string) {
	for _, f := range c.Files() {
		names = append(names, f.Name)
	}
	return names
}
