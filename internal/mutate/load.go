// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A goPackage is a package whose mutants are made, with what go list says of it.
type goPackage struct {
	ImportPath, Name, Dir, Export        string
	GoFiles, TestGoFiles, XTestGoFiles   []string
	IgnoredGoFiles, CgoFiles, EmbedFiles []string
	TestEmbedFiles, XTestEmbedFiles      []string
	DepOnly                              bool

	fset    *token.FileSet
	types   *types.Package
	info    *types.Info
	files   []*goFile
	content string // hash of its own files
}

type goFile struct {
	path    string // absolute
	text    string
	nameEnd int // behind the package clause
	imports map[string]string
	sites   []*site
}

// load finds the packages that the patterns name, and their sites.
func load(ctx context.Context, dir string, patterns []string) ([]*goPackage, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-export", "-deps", "-json"}, patterns...)...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", strings.Join(patterns, " "), err)
	}
	exports := map[string]string{}
	var named []*goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(goPackage)
		if err := decoder.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && len(p.GoFiles) > 0 {
			named = append(named, p)
		}
	}
	slices.SortFunc(named, func(a, b *goPackage) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	for _, p := range named {
		if err := p.check(dir, exports); err != nil {
			return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
	}
	return named, nil
}

// check parses a package, checks its types and collects the sites.
func (p *goPackage) check(dir string, exports map[string]string) error {
	p.fset = token.NewFileSet()
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(p.fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, file)
		p.files = append(p.files, &goFile{path: path, text: string(text), imports: map[string]string{}})
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	p.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Defs:  map[*ast.Ident]types.Object{},
		Uses:  map[*ast.Ident]types.Object{},
	}
	checker := types.Config{Importer: importer.ForCompiler(p.fset, "gc", lookup)}
	var err error
	if p.types, err = checker.Check(p.ImportPath, p.fset, parsed, p.info); err != nil {
		return err
	}
	for i, file := range p.files {
		file.nameEnd = p.fset.Position(parsed[i].Name.End()).Offset
		path, err := filepath.Rel(dir, file.path)
		if err != nil {
			return err
		}
		c := &collector{
			pkg: p, path: path, file: parsed[i], text: file.text,
			imports: file.imports, asked: map[ast.Expr]bool{}, not: map[ast.Expr]string{},
		}
		c.collect()
		file.sites = c.sites
	}
	p.content, err = p.hash()
	return err
}

// hash is over what a package and its tests are made of, testdata apart.
func (p *goPackage) hash() (string, error) {
	h := sha256.New()
	for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles, p.EmbedFiles, p.TestEmbedFiles, p.XTestEmbedFiles) {
		data, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(data), data)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}
