// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
)

// A site is one mutation that can be made.
type site struct {
	Package  string `json:"package"`
	File     string `json:"file"` // from the working directory
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Operator string `json:"operator"`
	Before   string `json:"before"`
	After    string `json:"after"`

	edits []edit
	// What the text has to be for this mutation and its neighbours alike.
	shared []edit
}

// An edit wraps a piece of a file's text, or takes its place. Where it has
// [number], the number of the mutation goes.
type edit struct {
	start, end  int
	open, close string
	replace     bool
}

const number = "\x00"

// collector finds the sites of one file.
type collector struct {
	pkg     *goPackage
	path    string
	file    *ast.File
	text    string
	imports map[string]string // names by path, of packages whose types are written out
	sites   []*site

	// asked are expressions whose truth decides something.
	asked map[ast.Expr]bool
	// not are constants with the step that would make the same mutant twice.
	not map[ast.Expr]string
	// results are those of the functions around the node that is visited.
	results []*types.Tuple
}

func (c *collector) offset(p token.Pos) int { return c.pkg.fset.Position(p).Offset }

func (c *collector) source(n ast.Node) string {
	text := strings.Join(strings.Fields(c.text[c.offset(n.Pos()):c.offset(n.End())]), " ")
	if short := []rune(text); len(short) > 70 {
		return string(short[:70]) + "…"
	}
	return text
}

func (c *collector) add(at token.Pos, operator, before, after string, edits ...edit) *site {
	position := c.pkg.fset.Position(at)
	s := &site{
		Package: c.pkg.ImportPath, File: c.path, Line: position.Line, Column: position.Column,
		Operator: operator, Before: before, After: after, edits: edits,
	}
	c.sites = append(c.sites, s)
	return s
}

func (c *collector) wrap(n ast.Node, open, closing string) edit {
	return edit{start: c.offset(n.Pos()), end: c.offset(n.End()), open: open, close: closing}
}

func (c *collector) typeOf(e ast.Expr) types.Type { return c.pkg.info.TypeOf(e) }

// typeName is how the file can write a type.
func (c *collector) typeName(t types.Type) string {
	return types.TypeString(types.Default(t), func(p *types.Package) string {
		if p == c.pkg.types {
			return ""
		}
		name, known := c.imports[p.Path()]
		if !known {
			name = "mutate" + strings.Map(func(r rune) rune {
				if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
					return r
				}
				return '_'
			}, strings.ToLower(p.Path()))
			c.imports[p.Path()] = name
		}
		return name
	})
}

func (c *collector) collect() {
	for _, decl := range c.file.Decls {
		c.visit(decl)
	}
}

// visit finds what can be done to a node, and goes on to what is in it.
func (c *collector) visit(n ast.Node) {
	switch n := n.(type) {
	case nil, *ast.ImportSpec, *ast.BranchStmt, *ast.StructType, *ast.InterfaceType, *ast.FuncType:
		return
	case *ast.GenDecl:
		if n.Tok != token.VAR { // the uses of a constant are mutated
			return
		}
	case *ast.FuncDecl:
		if n.Body != nil {
			c.function(c.pkg.info.Defs[n.Name].Type().(*types.Signature), n.Body)
		}
		return
	case *ast.FuncLit:
		c.function(c.typeOf(n).(*types.Signature), n.Body)
		return
	case *ast.ArrayType:
		return // its length is a constant
	case *ast.BlockStmt:
		c.statements(n.List)
	case *ast.CommClause:
		c.statements(n.Body)
	case *ast.CaseClause:
		c.statements(n.Body)
	case *ast.IfStmt:
		c.ask(n.Cond)
	case *ast.ForStmt:
		c.ask(n.Cond)
	case *ast.SwitchStmt:
		if c.switchStmt(n) {
			return
		}
	case *ast.AssignStmt:
		c.opAssign(n)
	case *ast.ReturnStmt:
		c.returned(n)
	case *ast.KeyValueExpr:
		panic("a key and a value are visited with their literal")
	case *ast.CompositeLit:
		c.literal(n)
		return
	case *ast.CallExpr:
		if c.errorText(n) {
			for _, arg := range n.Args[1:] {
				c.visit(arg)
			}
			return
		}
		if c.expression(n) {
			return
		}
	case ast.Expr:
		if c.expression(n) {
			return
		}
	}
	for _, child := range children(n) {
		c.visit(child)
	}
}

// children are the nodes that stand directly in a node.
func children(n ast.Node) (list []ast.Node) {
	ast.Inspect(n, func(child ast.Node) bool {
		if child == n {
			return true
		}
		if child != nil {
			list = append(list, child)
		}
		return false
	})
	return list
}

func (c *collector) function(signature *types.Signature, body *ast.BlockStmt) {
	c.results = append(c.results, signature.Results())
	c.visit(body)
	c.results = c.results[:len(c.results)-1]
}

func (c *collector) ask(e ast.Expr) {
	if e != nil {
		c.asked[ast.Unparen(e)] = true
	}
}

// statements are those that can be left out without a variable, a label or a
// result missing.
func (c *collector) statements(list []ast.Stmt) {
	for _, stmt := range list {
		operator := ""
		switch s := stmt.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && !isPanic(call) {
				operator = "remove call"
			}
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && !allBlank(s.Lhs) {
				operator = "remove assignment"
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
			operator = "remove statement"
		case *ast.DeferStmt:
			operator = "remove defer"
		case *ast.BranchStmt:
			if s.Tok == token.BREAK || s.Tok == token.CONTINUE {
				operator = "remove " + s.Tok.String()
			}
		}
		if operator != "" {
			c.add(stmt.Pos(), operator, c.source(stmt), "nothing", c.wrap(stmt, "if !mutateOn("+number+") { ", " }"))
		}
	}
}

func isPanic(call *ast.CallExpr) bool {
	name, ok := call.Fun.(*ast.Ident)
	return ok && name.Name == "panic"
}

func allBlank(list []ast.Expr) bool {
	for _, e := range list {
		if name, ok := e.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}

// opAssign subtracts where something is added, and the other way round.
func (c *collector) opAssign(s *ast.AssignStmt) {
	if s.Tok != token.ADD_ASSIGN && s.Tok != token.SUB_ASSIGN || !is(c.typeOf(s.Lhs[0]), types.IsNumeric) {
		return
	}
	after := map[token.Token]string{token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+="}[s.Tok]
	c.add(s.TokPos, "arithmetic", c.source(s), after,
		c.wrap(s.Rhs[0], "mutateNegative["+c.typeName(c.typeOf(s.Lhs[0]))+"]("+number+", ", ")"))
}

func is(t types.Type, what types.BasicInfo) bool {
	if t == nil {
		return false
	}
	if _, parameter := t.(*types.TypeParam); parameter {
		return false
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&what != 0
}

// literal visits a composite literal: keys that are names of fields or
// constant indices stay.
func (c *collector) literal(lit *ast.CompositeLit) {
	_, isMap := c.typeOf(lit).Underlying().(*types.Map)
	for _, elt := range lit.Elts {
		pair, ok := elt.(*ast.KeyValueExpr)
		if !ok {
			c.visit(elt)
			continue
		}
		if isMap && c.pkg.info.Types[pair.Key].Value == nil { // two constant keys would become one
			c.visit(pair.Key)
		}
		c.visit(pair.Value)
	}
}

// errorText says whether a call makes an error of a constant text, which no
// program depends on.
func (c *collector) errorText(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	made, _ := c.pkg.info.Uses[f.Sel].(*types.Func)
	return made != nil && (made.FullName() == "fmt.Errorf" || made.FullName() == "errors.New") &&
		c.pkg.info.Types[call.Args[0]].Value != nil
}

// expression adds the sites of an expression; done means that what stands in
// it is of no more interest.
func (c *collector) expression(e ast.Expr) (done bool) {
	value, known := c.pkg.info.Types[e]
	if !known || value.IsType() {
		return known
	}
	if value.Value != nil {
		c.constant(e, value)
		return true
	}
	switch e := e.(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			c.ask(e.X)
		}
		return false
	case *ast.BinaryExpr:
		c.binary(e)
		return false
	}
	c.negate(e)
	return false
}

// negate turns the truth of an expression that decides something.
func (c *collector) negate(e ast.Expr) {
	if c.asked[e] && is(c.typeOf(e), types.IsBoolean) {
		c.add(e.Pos(), "negate", c.source(e), "!", c.wrap(e, "((", ") != mutateOn("+number+"))"))
	}
}

func (c *collector) binary(e *ast.BinaryExpr) {
	switch e.Op {
	case token.LAND, token.LOR:
		c.ask(e.X)
		c.ask(e.Y)
		after := map[token.Token]string{token.LAND: "||", token.LOR: "&&"}[e.Op]
		// De Morgan: each operand and the whole are turned, so that what was
		// not evaluated stays so.
		c.add(e.OpPos, "logic", c.source(e), after,
			c.wrap(e, "((", ") != mutateOn("+number+"))"),
			c.wrap(e.X, "((", ") != mutateOn("+number+"))"),
			c.wrap(e.Y, "((", ") != mutateOn("+number+"))"))
	case token.EQL, token.NEQ:
		c.asked[e] = true
		c.negate(e)
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		c.asked[e] = true
		c.negate(e)
		c.operator(e, "boundary", boundary[e.Op], "["+c.typeName(c.typeOf(e.X))+"]")
		c.sameAsBoundary(e)
	case token.SHL, token.SHR:
		c.operator(e, "arithmetic", arithmetic[e.Op], "["+c.typeName(c.typeOf(e))+", "+c.typeName(c.typeOf(e.Y))+"]")
	default:
		if is(c.typeOf(e), types.IsNumeric) {
			c.operator(e, "arithmetic", arithmetic[e.Op], "["+c.typeName(c.typeOf(e))+"]")
		}
	}
}

// sameAsBoundary: x < 1+1 is x <= 1, over again.
func (c *collector) sameAsBoundary(e *ast.BinaryExpr) {
	step := map[token.Token]string{token.LSS: "+1", token.GEQ: "+1", token.GTR: "-1", token.LEQ: "-1"}[e.Op]
	c.not[ast.Unparen(e.Y)] = step
	if c.pkg.info.Types[e.X].Value != nil {
		c.not[ast.Unparen(e.X)] = map[string]string{"+1": "-1", "-1": "+1"}[step]
	}
}

// swapped is what becomes of an operator, and the function of the switch that
// does either.
type swapped struct{ after, function string }

var boundary = map[token.Token]swapped{
	token.LSS: {"<=", "mutateLess"},
	token.LEQ: {"<", "mutateLessEqual"},
	token.GTR: {">=", "mutateGreater"},
	token.GEQ: {">", "mutateGreaterEqual"},
}

var arithmetic = map[token.Token]swapped{
	token.ADD:     {"-", "mutateAdd"},
	token.SUB:     {"+", "mutateSub"},
	token.MUL:     {"/", "mutateMul"},
	token.QUO:     {"*", "mutateQuo"},
	token.REM:     {"*", "mutateRem"},
	token.AND:     {"|", "mutateAnd"},
	token.OR:      {"&", "mutateOr"},
	token.XOR:     {"&", "mutateXor"},
	token.AND_NOT: {"&", "mutateAndNot"},
	token.SHL:     {">>", "mutateShl"},
	token.SHR:     {"<<", "mutateShr"},
}

func (c *collector) operator(e *ast.BinaryExpr, name string, to swapped, instance string) {
	at := c.offset(e.OpPos)
	c.add(e.OpPos, name, c.source(e), to.after,
		c.wrap(e, to.function+instance+"("+number+", ", ")"),
		edit{start: at, end: at + len(e.Op.String()), open: ",", replace: true})
}

// constant mutates a constant where it is used.
func (c *collector) constant(e ast.Expr, value types.TypeAndValue) {
	name := c.typeName(value.Type)
	switch {
	case is(value.Type, types.IsBoolean):
		c.add(e.Pos(), "constant", c.source(e), "!", c.wrap(e, "mutateNot["+name+"]("+number+", ", ")"))
	case is(value.Type, types.IsInteger):
		if c.not[ast.Unparen(e)] != "+1" {
			c.add(e.Pos(), "constant", c.source(e), "+1", c.wrap(e, "mutateIncrease["+name+"]("+number+", ", ")"))
		}
		if lit, ok := e.(*ast.BasicLit); (!ok || lit.Kind != token.CHAR) && c.not[ast.Unparen(e)] != "-1" {
			c.add(e.Pos(), "constant", c.source(e), "-1", c.wrap(e, "mutateDecrease["+name+"]("+number+", ", ")"))
		}
	case is(value.Type, types.IsString):
		if text := constant.StringVal(value.Value); text != "" && !strings.Contains(text, " ") {
			c.add(e.Pos(), "constant", c.source(e), `""`, c.wrap(e, "mutateEmpty["+name+"]("+number+", ", ")"))
		}
	}
}

// returned gives zero values in place of results, and no error in place of one.
func (c *collector) returned(s *ast.ReturnStmt) {
	results := c.results[len(c.results)-1]
	if len(s.Results) == 1 && results.Len() > 1 {
		c.returnedTuple(s, results)
		return
	}
	for i, e := range s.Results {
		result := results.At(i).Type()
		if is(result, types.IsBoolean) {
			c.ask(e)
			continue
		}
		if value := c.pkg.info.Types[e]; value.Value != nil || value.IsNil() || isEmptyLiteral(e) {
			continue
		}
		c.add(e.Pos(), "return zero", c.source(e), zero(result), c.wrap(e, "mutateZero["+c.typeName(result)+"]("+number+", ", ")"))
	}
}

func isEmptyLiteral(e ast.Expr) bool {
	lit, ok := e.(*ast.CompositeLit)
	return ok && len(lit.Elts) == 0
}

func zero(t types.Type) string {
	if types.Identical(t, types.Universe.Lookup("error").Type()) {
		return "nil error"
	}
	return "zero"
}

func (c *collector) returnedTuple(s *ast.ReturnStmt, results *types.Tuple) {
	last := results.At(results.Len() - 1).Type()
	if zero(last) != "nil error" || results.Len() > 3 {
		return
	}
	var names []string
	for v := range results.Variables() {
		names = append(names, c.typeName(v.Type()))
	}
	function := map[int]string{2: "mutateSecond", 3: "mutateThird"}[results.Len()]
	c.add(s.Pos(), "return zero", c.source(s.Results[0]), "nil error",
		c.wrap(s.Results[0], function+"["+strings.Join(names, ", ")+"]("+number+")(", ")"))
}

// switchStmt drops the cases of a switch one by one, for which it is written
// as one without a tag; done means that it has visited all that is in it.
func (c *collector) switchStmt(s *ast.SwitchStmt) (done bool) {
	if s.Tag == nil {
		for _, clause := range s.Body.List {
			for _, label := range clause.(*ast.CaseClause).List {
				c.ask(label)
			}
		}
		return false
	}
	c.cases(s)
	if s.Init != nil {
		c.visit(s.Init)
	}
	if !isPlain(s.Tag) {
		c.visit(s.Tag)
	}
	for _, clause := range s.Body.List {
		clause := clause.(*ast.CaseClause)
		c.statements(clause.Body)
		for _, stmt := range clause.Body {
			c.visit(stmt)
		}
	}
	return true
}

func (c *collector) cases(s *ast.SwitchStmt) {
	tag := c.text[c.offset(s.Tag.Pos()):c.offset(s.Tag.End())]
	var shared []edit
	switch {
	case isPlain(s.Tag):
		shared = append(shared, edit{start: c.offset(s.Tag.Pos()), end: c.offset(s.Tag.End()), replace: true})
	case s.Init == nil:
		tag = "mutateTag"
		around := c.wrap(s.Tag, " "+tag+" :=", "; ")
		around.start-- // with the space before it: outside of what is done to the tag
		shared = append(shared, around)
	default:
		return
	}
	var labels []ast.Expr
	for _, clause := range s.Body.List {
		labels = append(labels, clause.(*ast.CaseClause).List...)
	}
	for _, label := range labels {
		shared = append(shared, c.wrap(label, "("+tag+" == (", "))"))
	}
	for _, label := range labels {
		c.add(label.Pos(), "drop case", "case "+c.source(label), "nothing",
			c.wrap(label, "(", " && !mutateOn("+number+"))")).shared = shared
	}
}

// isPlain says whether an expression can be evaluated as often as one likes.
func isPlain(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return true
	case *ast.SelectorExpr:
		return isPlain(e.X)
	}
	return false
}
