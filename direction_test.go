// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"slices"
	"strings"
	"testing"
)

// house are the packages in the order in which they stand on each other: each
// imports only what stands in a line above its own. docs/adr/0013 draws it.
var house = [][]string{
	{"match", "internal/scrub", "internal/excerpt", "internal/regularfile", "internal/canary", "internal/executable"},
	{"plugin"},
	{"internal/hostpattern"},
	{"internal/remote", "internal/secretfile", "internal/jwt", "internal/pluginmain", "dockerconfig", "config"},
	{"lint", "provider", ".", "internal/testfault"},
	{"kube", "internal/convert", "internal/layout", "plugintest", "internal/terminal", "internal/node", "internal/testregistry", "internal/testcloud", "internal/testkube", "internal/testcri"},
	{"internal/pull"},
	{"internal/doctor"},
	{"cmd", "internal/canary/find"},
}

// rank is the line of a package, or of the folder that it is in.
func rank(pkg string) int {
	for ; pkg != ""; pkg = pkg[:max(0, strings.LastIndexByte(pkg, '/'))] {
		if i := slices.IndexFunc(house, func(line []string) bool { return slices.Contains(line, pkg) }); i >= 0 {
			return i
		}
	}
	return -1
}

// TestOneDirection: packages import only what stands above them, on every
// system; their tests may do otherwise.
func TestOneDirection(t *testing.T) {
	arrows := 0
	for _, goos := range []string{"linux", "windows"} {
		for _, line := range list(t, goos, "-f", "{{$p := .ImportPath}}{{range .Imports}}{{$p}}={{.}} {{end}}", "./...") {
			pkg, dep, _ := strings.Cut(line, "=")
			if !within(dep, []string{module}) {
				continue
			}
			arrows++
			pkg, dep = local(pkg), local(dep)
			switch above, below := rank(dep), rank(pkg); {
			case above < 0 || below < 0:
				t.Errorf("%s imports %s: one of them has no place in the house", pkg, dep)
			case above >= below:
				t.Errorf("%s imports %s, which does not stand above it", pkg, dep)
			}
		}
	}
	if arrows < 50 {
		t.Errorf("%d imports: the list is not that of the module", arrows)
	}
}

// local is a package's folder in this module.
func local(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}
