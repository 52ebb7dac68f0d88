// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugin

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// maxPluginSize is the size limit of a minimal plugin in bytes.
const maxPluginSize = 3_000_000

func TestDependencies(t *testing.T) {
	out := must.Get(goCommand(t, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output())(t)
	deps := strings.Fields(string(out))
	ours := []string{"plugin", "match", "internal/await", "internal/diagnose", "internal/executable", "internal/excerpt", "internal/location", "internal/process", "internal/protocol", "internal/regularfile", "internal/scrub", "internal/spelling"}
	if !containsLine(deps, "sigs.k8s.io/json") {
		t.Errorf("got %q, want sigs.k8s.io/json among them", deps)
	}
	for _, dep := range deps {
		if !slices.Contains(ours, strings.TrimPrefix(dep, "github.com/regcred/regcred/")) && dep != "sigs.k8s.io/json" && !strings.HasPrefix(dep, "sigs.k8s.io/json/") {
			t.Errorf("the package depends on %s", dep)
		}
	}
}

func TestMinimalPlugin(t *testing.T) {
	c := Command{Path: buildStatic(t, "minimal"), Name: "test", APIVersion: V1}
	info := must.Get(os.Stat(c.Path))(t)
	t.Logf("a minimal plugin has %d bytes", info.Size())
	if info.Size() > maxPluginSize {
		t.Errorf("a minimal plugin has %d bytes, want at most %d", info.Size(), maxPluginSize)
	}
	x, err := c.Run(t.Context(), testRequest())
	checkRun(t, x, err, "")
	if got := x.Response.Auth["registry.example"].Username; got != "ci" {
		t.Errorf("got user name %q", got)
	}
}

// BenchmarkStart measures the start time of a plugin and of a Go program that does nothing:
//
//	go test -run '^$' -bench Start -benchtime 300x -count 10 ./plugin
func BenchmarkStart(b *testing.B) {
	stdin, err := EncodeRequest(&Request{APIVersion: V1, Image: "registry.example/a"})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"empty", "minimal"} {
		path := buildStatic(b, name)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				cmd := exec.Command(path)
				cmd.Stdin = bytes.NewReader(stdin)
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCommand measures the time to run a minimal plugin with Command.
func BenchmarkCommand(b *testing.B) {
	c := Command{Path: buildStatic(b, "minimal"), APIVersion: V1}
	req := &Request{Image: "registry.example/a"}
	for b.Loop() {
		if _, err := c.Run(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// buildStatic builds a program in testdata with the flags that releases are built with.
func buildStatic(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	cmd := goCommand(t, "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./testdata/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

func goCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command")
	}
	return exec.Command("go", args...)
}
