// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docLink matches a link to a declaration, such as [Keyring] or [*Keyring.Lookup]. Links
// to other packages, such as [config.Load], start with a lowercase name.
var docLink = regexp.MustCompile(`\[\*?(\w+(?:\.\w+)?)\]`)

// TestDocLinks verifies that the declarations exist to which comments link, as in [Keyring].
func TestDocLinks(t *testing.T) {
	type comment struct {
		position token.Position
		text     string
	}
	declared := map[string]map[string]bool{} // by directory: the declared names, and methods and fields as Type.Member
	comments := map[string][]comment{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "testdata/") {
			return err
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if declared[dir] == nil {
			declared[dir] = map[string]bool{}
		}
		for _, decl := range file.Decls {
			addDeclared(declared[dir], decl)
		}
		for _, group := range file.Comments {
			comments[dir] = append(comments[dir], comment{fset.Position(group.Pos()), group.Text()})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for dir, list := range comments {
		for _, c := range list {
			for _, m := range docLink.FindAllStringSubmatch(c.text, -1) {
				name, _, qualified := strings.Cut(m[1], ".")
				switch {
				case declared[dir][m[1]]:
					links++
				case qualified && declared[dir][name]:
					t.Errorf("%s: %s does not exist", c.position, m[0])
				case !qualified && ast.IsExported(name) && len(name) > 1:
					t.Errorf("%s: %s does not exist", c.position, m[0])
				}
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links found", links)
	}
}

// addDeclared adds the names that decl declares. Methods and fields are added as Type.Member.
func addDeclared(names map[string]bool, decl ast.Decl) {
	if f, ok := decl.(*ast.FuncDecl); ok {
		name := f.Name.Name
		if f.Recv != nil {
			ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && !strings.Contains(name, ".") {
					name = id.Name + "." + name
				}
				return true
			})
		}
		names[name] = true
		return
	}
	for _, spec := range decl.(*ast.GenDecl).Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range s.Names {
				names[name.Name] = true
			}
		case *ast.TypeSpec:
			names[s.Name.Name] = true
			ast.Inspect(s.Type, func(n ast.Node) bool {
				if f, ok := n.(*ast.Field); ok {
					for _, name := range f.Names {
						names[s.Name.Name+"."+name.Name] = true
					}
				}
				return true
			})
		}
	}
}
