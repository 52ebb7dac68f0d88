// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inside_test

import (
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
	"github.com/regcred/regcred/upstream/kubelet"
)

const pagePath = "../../docs/project/upstream.md"

func readPage(t *testing.T) string {
	t.Helper()
	data := must.Get(os.ReadFile(pagePath))(t)
	return strings.ReplaceAll(string(data), "\r\n", "\n")
}

var (
	// sourceReference matches a file of the Kubernetes release and the functions in that file, in the page's
	// notation.
	sourceReference = regexp.MustCompile("`(pkg/[^`]+\\.go)`:((?:,?\\s+`\\w+`)+)")
	quotedFilePattern      = regexp.MustCompile("`(pkg/[^`]+)`")
	quotedCodePattern          = regexp.MustCompile("`(\\w+)`")
	lineReferencePattern         = regexp.MustCompile(`\n *`)
)

// TestDocumentedSourcesExist verifies that the files and functions that the page names exist in the
// Kubernetes release pinned in go.mod.
func TestDocumentedSourcesExist(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	release, text := strings.TrimSpace(string(out)), readPage(t)
	for _, m := range quotedFilePattern.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(release, m[1])); err != nil {
			t.Errorf("%s: %v", pagePath, err)
		}
	}
	found := sourceReference.FindAllStringSubmatch(text, -1)
	for _, m := range found {
		have := declaredFunctions(t, filepath.Join(release, m[1]))
		for _, name := range quotedCodePattern.FindAllStringSubmatch(m[2], -1) {
			if !have[name[1]] {
				t.Errorf("%s: %s has no function %s", pagePath, m[1], name[1])
			}
		}
	}
	sections := strings.Count(text, "\n- **Today**")
	if sections != 11 || len(found) < sections {
		t.Errorf("%s: %d places in %d sections that say what the code does today, want at least one in each of 11", pagePath, len(found), sections)
	}
	if !strings.Contains(text, "Kubernetes "+kubelet.Version) {
		t.Errorf("%s is not about %s, which go.mod pins", pagePath, kubelet.Version)
	}
}

// declaredFunctions returns the names of the functions and methods that a file declares.
func declaredFunctions(t *testing.T, path string) map[string]bool {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
	names := map[string]bool{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			names[f.Name.Name] = true
		}
	}
	return names
}

// TestMessages verifies that the page quotes the kubelet's start-up messages correctly.
func TestMessages(t *testing.T) {
	const config = `{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [
		{"name": "ecr", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "defaultCacheDuration": "1h", "matchImages": [IMAGES]}]}`
	text := readPage(t)
	for name, images := range map[string]string{"missing executable": `"registry.example"`, "invalid entry": ``} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "config.json")
			must.Do(t, os.WriteFile(path, []byte(strings.Replace(config, "IMAGES", images, 1)), 0o600))
			err := kubelet.RegisterPlugins(path, dir, kubelet.TokenFuncs{})
			if err == nil {
				t.Fatal("the kubelet accepts it")
			}
			if strings.Contains(err.Error(), "ecr") {
				t.Errorf("it names the provider: %v", err)
			}
			if !strings.Contains(lineReferencePattern.ReplaceAllString(text, " "), "`"+err.Error()+"`") {
				t.Errorf("%s does not quote %q", pagePath, err)
			}
		})
	}
}
