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

// Patch changes a release's pkg/kubelet/images/image_manager.go so that the error of a
// pull includes why an image credential provider failed. If the file is not as expected,
// it returns an error that names the missing part, and changes nothing.
func Patch(version string, text []byte) ([]byte, error) {
	p := &patch{version: version, text: text, files: token.NewFileSet()}
	file, err := parser.ParseFile(p.files, imageManager, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("%s of Kubernetes %s: %w", imageManager, version, err)
	}
	p.file = file
	for _, change := range []func() error{p.unused, p.lookup, p.ensure, p.pull} {
		if err := change(); err != nil {
			return nil, fmt.Errorf("%s of Kubernetes %s: %w", imageManager, version, err)
		}
	}
	return p.apply()
}

// variable is the name of the new variable, result or parameter in each changed function.
const variable = "lookupErr"

// patch collects the changes to a file. All of them are insertions.
type patch struct {
	version string
	text    []byte
	files   *token.FileSet
	file    *ast.File
	edits   []edit

	plugin string // name under which the file imports package plugin
}

type edit struct {
	offset int
	text   string
}

func (p *patch) insert(at token.Pos, text string) {
	p.edits = append(p.edits, edit{p.files.Position(at).Offset, text})
}

// argument appends an argument to a call.
func (p *patch) argument(c *ast.CallExpr, text string) error {
	if len(c.Args) == 0 {
		return fmt.Errorf("line %d: the call has no argument", p.files.Position(c.Pos()).Line)
	}
	p.insert(c.Args[len(c.Args)-1].End(), ", "+text)
	return nil
}

// parameter appends a parameter to a function.
func (p *patch) parameter(f *function, text string) error {
	list := f.decl.Type.Params.List
	if len(list) == 0 {
		return f.errorf("it has no parameter")
	}
	p.insert(list[len(list)-1].End(), ", "+text)
	return nil
}

// unused returns an error if the file already uses the name.
func (p *patch) unused() (err error) {
	ast.Inspect(p.file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == variable {
			err = fmt.Errorf("line %d: the name %s is taken", p.files.Position(id.Pos()).Line, variable)
		}
		return err == nil
	})
	return err
}

// lookup makes the function that queries the keyrings store the lookup's error through a
// pointer.
func (p *patch) lookup() error {
	f, err := p.function("makeLookupPullCredentialsFunc")
	if err != nil {
		return err
	}
	made, err := f.assignment("NewExternalCredentialProviderDockerKeyring")
	if err != nil {
		return err
	}
	asked, err := f.assignment("Lookup")
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
		return f.errorf("NewExternalCredentialProviderDockerKeyring is not called as package.Function, for a variable")
	}
	p.plugin = plugin.Name
	p.insert(asked.End(), fmt.Sprintf("\n*%s = %s.LookupErr(%s)", variable, p.plugin, keyring.Name))
	return p.parameter(f, variable+" *error")
}

// ensure passes the error on to the function that pulls the image.
func (p *patch) ensure() error {
	f, err := p.function("EnsureImageExists")
	if err != nil {
		return err
	}
	made, err := f.assignment("makeLookupPullCredentialsFunc")
	if err != nil {
		return err
	}
	pull, err := f.call("pullImage")
	if err != nil {
		return err
	}
	p.insert(made.Pos(), "var "+variable+" error\n")
	if err := p.argument(made.Rhs[0].(*ast.CallExpr), "&"+variable); err != nil {
		return err
	}
	return p.argument(pull, variable)
}

// pull adds the error to the error of a failed pull, before the kubelet processes it.
func (p *patch) pull() error {
	f, err := p.function("pullImage")
	if err != nil {
		return err
	}
	result, err := f.received()
	if err != nil {
		return err
	}
	failed, err := f.ifFailed(result)
	if err != nil {
		return err
	}
	p.insert(failed.Body.Lbrace+1, fmt.Sprintf("\n%[1]s.err = %[2]s.WithLookupErr(%[1]s.err, %[3]s)", result, p.plugin, variable))
	return p.parameter(f, variable+" error")
}

// apply returns the text with the changes.
func (p *patch) apply() ([]byte, error) {
	slices.SortFunc(p.edits, func(a, b edit) int { return b.offset - a.offset })
	text := slices.Clone(p.text)
	for _, e := range p.edits {
		text = slices.Insert(text, e.offset, []byte(e.text)...)
	}
	out, err := format.Source(text)
	if err != nil {
		return nil, fmt.Errorf("%s of Kubernetes %s, once changed: %w", imageManager, p.version, err)
	}
	return out, nil
}
