// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"slices"
	"strings"
	"testing"
)

// packageLayers reads the layers of packages from docs/project/adr/0013-import-direction.md.
func packageLayers(t *testing.T) (layers [][]string) {
	t.Helper()
	_, picture, found := strings.Cut(readLines(t, "docs/project/adr/0013-import-direction.md"), "```text\n")
	picture, _, closed := strings.Cut(picture, "```")
	if !found || !closed {
		t.Fatal("the list of layers is missing")
	}
	for line := range strings.Lines(picture) {
		if names := strings.Fields(strings.Trim(line, " │┌┐└┘├┤─▲\n")); len(names) > 0 {
			layers = append(layers, names)
		}
	}
	return layers
}

// packageLayer returns the number of the layer of a package or of its nearest parent directory.
func packageLayer(layers [][]string, pkg string) int {
	for ; pkg != ""; pkg = pkg[:max(0, strings.LastIndexByte(pkg, '/'))] {
		if i := slices.IndexFunc(layers, func(line []string) bool { return slices.Contains(line, pkg) }); i >= 0 {
			return i
		}
	}
	return -1
}

// TestOneDirection verifies that packages import only packages in the layers above them, on
// every operating system. It does not check the imports of tests.
func TestOneDirection(t *testing.T) {
	layers, imports := packageLayers(t), 0
	for _, goos := range []string{"linux", "windows"} {
		for _, line := range goList(t, goos, "-f", "{{$p := .ImportPath}}{{range .Imports}}{{$p}}={{.}} {{end}}", "./...") {
			pkg, dep, _ := strings.Cut(line, "=")
			if !inModules(dep, []string{module}) {
				continue
			}
			imports++
			pkg, dep = relativePackage(pkg), relativePackage(dep)
			switch above, below := packageLayer(layers, dep), packageLayer(layers, pkg); {
			case above < 0 || below < 0:
				t.Errorf("%s imports %s: one of them is not listed", pkg, dep)
			case above >= below:
				t.Errorf("%s imports %s, which is not listed above it", pkg, dep)
			}
		}
	}
	if imports < 50 {
		t.Errorf("%d imports: the list does not contain the module", imports)
	}
}

// relativePackage returns the directory of a package, relative to this module.
func relativePackage(pkg string) string {
	if pkg == module {
		return "regcred"
	}
	return strings.TrimPrefix(pkg, module+"/")
}
