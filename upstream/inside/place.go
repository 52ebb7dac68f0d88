// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inside

import (
	"fmt"
	"go/ast"
	"go/token"
)

// targetFunction is a function of the patched file. Its methods find a syntax node that must occur
// exactly once in the function.
type targetFunction struct {
	decl *ast.FuncDecl
}

func (f *targetFunction) newError(format string, args ...any) error {
	return fmt.Errorf("func %s: %w", f.decl.Name.Name, fmt.Errorf(format, args...))
}

// findMethod returns the image manager's method with this name.
func (p *filePatch) findMethod(name string) (*targetFunction, error) {
	var found []*ast.FuncDecl
	for _, d := range p.file.Decls {
		if decl, ok := d.(*ast.FuncDecl); ok && decl.Name.Name == name && decl.Body != nil {
			found = append(found, decl)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("there are %d functions %s, want 1", len(found), name)
	}
	return &targetFunction{found[0]}, nil
}

// findCall returns the call of a function or method with this name, whatever its package or
// receiver.
func (f *targetFunction) findCall(name string) (*ast.CallExpr, error) {
	found := findNodesOfType(f, func(c *ast.CallExpr) bool { return isCallTo(c, name) })
	if len(found) != 1 {
		return nil, f.newError("there are %d calls of %s, want 1", len(found), name)
	}
	return found[0], nil
}

// findAssignment returns the statement that assigns the results of a call of this name.
func (f *targetFunction) findAssignment(name string) (*ast.AssignStmt, error) {
	if _, err := f.findCall(name); err != nil {
		return nil, err
	}
	found := findNodesOfType(f, func(s *ast.AssignStmt) bool {
		c, ok := s.Rhs[0].(*ast.CallExpr)
		return ok && len(s.Rhs) == 1 && isCallTo(c, name)
	})
	if len(found) != 1 {
		return nil, f.newError("there are %d assignments of what %s returns, want 1", len(found), name)
	}
	return found[0], nil
}

// findReceivedVariable returns the variable that is received from a channel.
func (f *targetFunction) findReceivedVariable() (name string, err error) {
	found := findNodesOfType(f, func(s *ast.AssignStmt) bool {
		u, ok := s.Rhs[0].(*ast.UnaryExpr)
		_, named := s.Lhs[0].(*ast.Ident)
		return ok && u.Op == token.ARROW && len(s.Lhs) == 1 && named
	})
	if len(found) != 1 {
		return "", f.newError("there are %d variables received from a channel, want 1", len(found))
	}
	return found[0].Lhs[0].(*ast.Ident).Name, nil
}

// findErrCheck returns the statement "if v.err != nil".
func (f *targetFunction) findErrCheck(v string) (*ast.IfStmt, error) {
	found := findNodesOfType(f, func(s *ast.IfStmt) bool {
		c, ok := s.Cond.(*ast.BinaryExpr)
		return ok && s.Init == nil && c.Op == token.NEQ && isFieldSelector(c.X, v, "err") && isIdentNamed(c.Y, "nil")
	})
	if len(found) != 1 {
		return nil, f.newError("there are %d statements \"if %s.err != nil\", want 1", len(found), v)
	}
	return found[0], nil
}

// findNodesOfType returns the nodes of type T in a function for which is returns true.
func findNodesOfType[T ast.Node](f *targetFunction, is func(T) bool) (found []T) {
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if t, ok := n.(T); ok && is(t) {
			found = append(found, t)
		}
		return true
	})
	return found
}

func isCallTo(c *ast.CallExpr, name string) bool {
	switch fun := c.Fun.(type) {
	case *ast.Ident:
		return fun.Name == name
	case *ast.SelectorExpr:
		return fun.Sel.Name == name
	}
	return false
}

func isFieldSelector(e ast.Expr, of, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && isIdentNamed(s.X, of) && s.Sel.Name == name
}

func isIdentNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
