// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inside

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
)

// PatchImageManager changes pkg/kubelet/images/image_manager.go of a Kubernetes release. In the
// result, the error of a pull states why an image credential provider failed. If the file does
// not have the expected content, PatchImageManager changes nothing and returns an error that names
// the missing part.
func PatchImageManager(version string, text []byte) ([]byte, error) {
	p := &filePatch{version: version, text: text, files: token.NewFileSet()}
	file, err := parser.ParseFile(p.files, imageManagerFile, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("%s of Kubernetes %s: %w", imageManagerFile, version, err)
	}
	p.file = file
	for _, change := range []func() error{p.checkNameUnused, p.patchLookup, p.patchEnsure, p.patchPull} {
		if err := change(); err != nil {
			return nil, fmt.Errorf("%s of Kubernetes %s: %w", imageManagerFile, version, err)
		}
	}
	return p.applyEdits()
}

// lookupErrVariable is the name of the variable, result or parameter that is added to each changed
// function.
const lookupErrVariable = "lookupErr"

// filePatch collects the changes to a file. All of them are insertions.
type filePatch struct {
	version string
	text    []byte
	files   *token.FileSet
	file    *ast.File
	edits   []textEdit

	plugin string // name under which the file imports package plugin
}

type textEdit struct {
	offset int
	text   string
}

func (p *filePatch) insertText(at token.Pos, text string) {
	p.edits = append(p.edits, textEdit{p.files.Position(at).Offset, text})
}

// appendArgument appends an argument to a call.
func (p *filePatch) appendArgument(c *ast.CallExpr, text string) error {
	if len(c.Args) == 0 {
		return fmt.Errorf("line %d: the call has no argument", p.files.Position(c.Pos()).Line)
	}
	p.insertText(c.Args[len(c.Args)-1].End(), ", "+text)
	return nil
}

// appendParameter appends a parameter to a function.
func (p *filePatch) appendParameter(f *targetFunction, text string) error {
	list := f.decl.Type.Params.List
	if len(list) == 0 {
		return f.newError("it has no parameter")
	}
	p.insertText(list[len(list)-1].End(), ", "+text)
	return nil
}

// checkNameUnused returns an error if the file already contains the identifier lookupErrVariable.
func (p *filePatch) checkNameUnused() (err error) {
	ast.Inspect(p.file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == lookupErrVariable {
			err = fmt.Errorf("line %d: the name %s is taken", p.files.Position(id.Pos()).Line, lookupErrVariable)
		}
		return err == nil
	})
	return err
}

// patchLookup changes makeLookupPullCredentialsFunc. The function gets a pointer as an additional
// parameter, and the lookup stores its error there.
func (p *filePatch) patchLookup() error {
	f, err := p.findMethod("makeLookupPullCredentialsFunc")
	if err != nil {
		return err
	}
	made, err := f.findAssignment("NewExternalCredentialProviderDockerKeyring")
	if err != nil {
		return err
	}
	asked, err := f.findAssignment("Lookup")
	if err != nil {
		return err
	}
	keyring, ok := made.Lhs[0].(*ast.Ident)
	called, qualified := made.Rhs[0].(*ast.CallExpr).Fun.(*ast.SelectorExpr)
	var plugin *ast.Ident
	if qualified {
		plugin, qualified = called.X.(*ast.Ident)
	}
	if !ok || !qualified {
		return f.newError("NewExternalCredentialProviderDockerKeyring is not called as package.Function, for a variable")
	}
	p.plugin = plugin.Name
	p.insertText(asked.End(), fmt.Sprintf("\n*%s = %s.LookupErr(%s)", lookupErrVariable, p.plugin, keyring.Name))
	return p.appendParameter(f, lookupErrVariable+" *error")
}

// patchEnsure changes EnsureImageExists so that it passes the lookup's error to pullImage.
func (p *filePatch) patchEnsure() error {
	f, err := p.findMethod("EnsureImageExists")
	if err != nil {
		return err
	}
	made, err := f.findAssignment("makeLookupPullCredentialsFunc")
	if err != nil {
		return err
	}
	pull, err := f.findCall("pullImage")
	if err != nil {
		return err
	}
	p.insertText(made.Pos(), "var "+lookupErrVariable+" error\n")
	if err := p.appendArgument(made.Rhs[0].(*ast.CallExpr), "&"+lookupErrVariable); err != nil {
		return err
	}
	return p.appendArgument(pull, lookupErrVariable)
}

// patchPull changes pullImage so that it adds the lookup's error to the error of a failed pull,
// before the kubelet processes that error.
func (p *filePatch) patchPull() error {
	f, err := p.findMethod("pullImage")
	if err != nil {
		return err
	}
	result, err := f.findReceivedVariable()
	if err != nil {
		return err
	}
	failed, err := f.findErrCheck(result)
	if err != nil {
		return err
	}
	p.insertText(failed.Body.Lbrace+1, fmt.Sprintf("\n%[1]s.err = %[2]s.WithLookupErr(%[1]s.err, %[3]s)", result, p.plugin, lookupErrVariable))
	return p.appendParameter(f, lookupErrVariable+" error")
}

// applyEdits returns the text with the changes.
func (p *filePatch) applyEdits() ([]byte, error) {
	slices.SortFunc(p.edits, func(a, b textEdit) int { return b.offset - a.offset })
	text := slices.Clone(p.text)
	for _, e := range p.edits {
		text = slices.Insert(text, e.offset, []byte(e.text)...)
	}
	out, err := format.Source(text)
	if err != nil {
		return nil, fmt.Errorf("%s of Kubernetes %s, once changed: %w", imageManagerFile, p.version, err)
	}
	return out, nil
}
