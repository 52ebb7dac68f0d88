// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

// onlyInOnePackage lists the exported names that only one of the two packages has, with the reason.
var onlyInOnePackage = map[string]string{
	"type Plugin":        "the kubelet's tests replace an exec by it, and nobody else makes use of it",
	"func LookupErr":     "for the file that is changed",
	"func WithLookupErr": "for the file that is changed",
}

// TestNames verifies that this package exports the names that the rest of the kubelet uses. Their
// types are checked when a kubelet is built.
func TestNames(t *testing.T) {
	want, got := exportedNames(t, "k8s.io/kubernetes/pkg/credentialprovider/plugin"), exportedNames(t, ".")
	if len(want) != 4 {
		t.Errorf("the kubelet's package declares %q, want 4 names beside those that are listed", want)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-kubelet +regcred\n%s", diff)
	}
}

// exportedNames returns a package's exported names, except those in onlyInOnePackage.
func exportedNames(t *testing.T, pkg string) (names []string) {
	out, err := exec.Command("go", "list", "-f", `{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}`, pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	add := func(what string, name *ast.Ident) {
		if said := what + " " + name.Name; name.IsExported() && onlyInOnePackage[said] == "" {
			names = append(names, said)
		}
	}
	for _, file := range strings.Fields(string(out)) {
		f := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add("func", d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						add("type", s.Name)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							add(d.Tok.String(), name)
						}
					}
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// TestImports verifies that the package imports no internal packages of this repository and no
// packages of upstream/. It cannot import them because it is compiled as part of Kubernetes.
func TestImports(t *testing.T) {
	out := must.Get(exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".").Output())(t)
	for _, path := range strings.Fields(string(out)) {
		if strings.Contains(path, "regcred/internal") || strings.Contains(path, "regcred/upstream") {
			t.Errorf("it imports %s", path)
		}
	}
}
