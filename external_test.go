// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// loadPublic returns the type-checked public packages of this module.
func loadPublic(t *testing.T) (public []*types.Package) {
	t.Helper()
	exports, paths := map[string]string{}, []string{}
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}} {{.Name}} {{.DepOnly}}", "./...")
	list.Stderr = t.Output()
	out := must.Get(list.Output())(t)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if path := fields[0]; len(fields) == 4 {
			exports[path] = fields[1]
			if fields[3] == "false" && fields[2] != "main" && !isInternal(path) && path != module+"/docs" {
				paths = append(paths, path)
			}
		}
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	load := importer.ForCompiler(token.NewFileSet(), "gc", open)
	for _, path := range paths {
		pkg := must.Get(load.Import(path))(t)
		public = append(public, pkg)
	}
	return public
}

func isInternal(path string) bool {
	return strings.HasPrefix(path, module+"/internal/") || strings.Contains(path, "/internal/")
}

// apiTypes calls visit for each type that is used in the declaration of an exported identifier.
type apiTypes struct {
	seen  map[types.Type]bool
	visit func(types.Type)
}

func (a apiTypes) walk(list ...types.Type) {
	for _, t := range list {
		if a.seen[t] {
			continue
		}
		a.seen[t] = true
		a.visit(t)
		switch t := t.(type) {
		case *types.Map:
			a.walk(t.Key(), t.Elem())
		case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
			a.walk(t.Elem())
		case *types.Tuple:
			for v := range t.Variables() {
				a.walk(v.Type())
			}
		case *types.Signature:
			a.walk(t.Params(), t.Results())
		case *types.Struct:
			for f := range t.Fields() {
				if f.Exported() {
					a.walk(f.Type())
				}
			}
		case *types.Interface:
			for m := range t.Methods() {
				a.walk(m.Type())
			}
		case *types.Alias:
			a.walk(types.Unalias(t))
		case *types.Named:
			for arg := range t.TypeArgs().Types() {
				a.walk(arg)
			}
		}
	}
}

// walkObject visits the type of an object. For a declared type, it also visits the underlying
// type and the methods.
func (a apiTypes) walkObject(o types.Object) {
	a.walk(o.Type())
	if named, ok := o.Type().(*types.Named); ok {
		a.walk(named.Underlying())
		for m := range named.Methods() {
			if m.Exported() {
				a.walk(m.Type())
			}
		}
	}
}

// exportedObjects returns the exported objects of a package.
func exportedObjects(pkg *types.Package) (list []types.Object) {
	for _, name := range pkg.Scope().Names() {
		if o := pkg.Scope().Lookup(name); o.Exported() {
			list = append(list, o)
		}
	}
	return list
}

// TestPublicTypes verifies that the exported identifiers of public packages use no types of
// internal packages.
func TestPublicTypes(t *testing.T) {
	public, objects := loadPublic(t), 0
	for _, pkg := range public {
		for _, o := range exportedObjects(pkg) {
			objects++
			apiTypes{map[types.Type]bool{}, func(typ types.Type) {
				if named, ok := typ.(*types.Named); ok && named.Obj().Pkg() != nil && isInternal(named.Obj().Pkg().Path()) {
					t.Errorf("%s.%s mentions %v", pkg.Path(), o.Name(), typ)
				}
			}}.walkObject(o)
		}
	}
	if len(public) < 10 || objects < 100 {
		t.Errorf("%d packages with %d exported identifiers: the list is incomplete", len(public), objects)
	}
}

// settingProgram returns the source of a package that sets each field of each exported struct
// from a variable. It also returns the number of fields.
func settingProgram(public []*types.Package) (source string, fields int) {
	imports, body := map[string]string{}, &strings.Builder{}
	qualify := func(pkg *types.Package) string {
		if imports[pkg.Path()] == "" {
			imports[pkg.Path()] = fmt.Sprintf("p%d", len(imports))
		}
		return imports[pkg.Path()]
	}
	for _, pkg := range public {
		for _, o := range exportedObjects(pkg) {
			s, ok := o.Type().Underlying().(*types.Struct)
			if _, isType := o.(*types.TypeName); !ok || !isType {
				continue // generic types would need type arguments, but there are none in the public packages
			}
			fmt.Fprintf(body, "\nfunc _() {\n\tvar x %s\n", types.TypeString(o.Type(), qualify))
			for f := range s.Fields() {
				if f.Exported() {
					fields++
					fmt.Fprintf(body, "\tvar v%d %s\n\tx.%s = v%[1]d\n", fields, types.TypeString(f.Type(), qualify), f.Name())
				}
			}
			body.WriteString("\t_ = x\n}\n")
		}
	}
	head := "package outside\n\n"
	for path, name := range imports {
		head += fmt.Sprintf("import %s %q\n", name, path)
	}
	return head + body.String(), fields
}

// TestExternalModule builds a module outside this one that sets each option of each public
// package.
func TestExternalModule(t *testing.T) {
	source, fields := settingProgram(loadPublic(t))
	if fields < 150 {
		t.Errorf("the program sets only %d fields", fields)
	}
	root := must.Get(os.Getwd())(t)
	_, requirements, _ := strings.Cut(readLines(t, "go.mod"), "\n")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"outside.go": source,
		"go.mod":     fmt.Sprintf("module outside.example\n%s\nrequire %s v0.0.0\n\nreplace %[2]s => %s\n", requirements, module, root),
		"go.sum":     readLines(t, "go.sum"),
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cmd := exec.Command("go", "build", "-gcflags=-e", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -mod=mod"), "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
