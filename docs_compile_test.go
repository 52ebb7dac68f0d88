// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// snippetImports are packages that snippets in the documents use without importing them.
var snippetImports = map[string]string{
	"plugin": module + "/plugin", "plugintest": module + "/plugintest", "testing": "testing", "context": "context",
}

// TestDocsCompile builds the Go snippets in documents that TestDocsQuoteExamples does not
// check.
func TestDocsCompile(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	overlay, n := map[string]string{}, 0
	here := must.Get(os.Getwd())(t)
	for _, name := range []string{"docs/conformance.md", "docs/plugin-authors.md"} {
		for _, m := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(readLines(t, name), -1) {
			file := filepath.Join(t.TempDir(), "snippet.go")
			must.Do(t, os.WriteFile(file, []byte(completeSnippet(t, name, m[1])), 0o600))
			overlay[filepath.Join(here, "internal", "snippets", fmt.Sprint("s", n), "snippet.go")] = file
			n++
		}
	}
	if n < 3 {
		t.Fatalf("%d pieces of Go found", n)
	}
	data := must.Get(json.Marshal(map[string]any{"Replace": overlay}))(t)
	file := filepath.Join(t.TempDir(), "overlay.json")
	must.Do(t, os.WriteFile(file, data, 0o600))
	cmd := exec.Command("go", "build", "-trimpath", "-o", os.DevNull, "-overlay", file)
	for i := range n {
		cmd.Args = append(cmd.Args, fmt.Sprintf("./internal/snippets/s%d", i))
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go build: %v\n%s", err, out)
	}
}

// completeSnippet completes a snippet to a Go file. It does not change a complete file. It adds imports
// to functions, and puts statements into a function.
func completeSnippet(t *testing.T, name, code string) string {
	t.Helper()
	if strings.HasPrefix(code, "package ") {
		if !strings.Contains(code, "func main()") {
			code += "\nfunc main() {}\n" // the snippet is a test file
		}
		return code
	}
	body := code
	if !strings.HasPrefix(code, "func ") {
		body = "func snippet(ctx context.Context) {\n" + code + "}\n"
	}
	f := must.Get(parser.ParseFile(token.NewFileSet(), name, "package snippet\n"+body, 0))(t)
	imports, declared := map[string]bool{}, ""
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && snippetImports[x.Name] != "" {
				imports[x.Name] = true
			}
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				if id, ok := l.(*ast.Ident); ok && n.Tok == token.DEFINE && body != code {
					declared += "\t_ = " + id.Name + "\n"
				}
			}
		}
		return true
	})
	head := "package snippet\n"
	for p := range imports {
		head += fmt.Sprintf("import %q\n", snippetImports[p])
	}
	if declared != "" {
		body = strings.TrimSuffix(body, "}\n") + declared + "}\n"
	}
	return head + body
}
