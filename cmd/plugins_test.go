// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package cmd_test runs the programs of cmd/ together, as they are released.
package cmd_test

import (
	"debug/buildinfo"
	"debug/elf"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// pluginPages maps each plugin to its page in docs/plugins.
var pluginPages = map[string]string{
	"ecr-credential-provider":          "ecr.md",
	"auth-provider-gcp":                "gcr.md",
	"acr-credential-provider":          "acr.md",
	"token-credential-provider":        "token.md",
	"dockerconfig-credential-provider": "dockerconfig.md",
	"static-credential-provider":       "static.md",
}

// nonPluginPrograms lists the programs without a page in docs/plugins.
var nonPluginPrograms = []string{"regcred", "regcred-controller", "docker-credential-regcred", "regcred-credential-provider"}

// buildDir holds the built programs. TestMain creates and removes it.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "regcred-cmd-")
	if err != nil {
		log.Fatal(err)
	}
	buildDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// buildReleasePrograms builds every program as in a release. It runs once for all tests, because linking takes
// seconds.
var buildReleasePrograms = sync.OnceValues(func() (out []byte, err error) {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=v9.8.7", "-o", buildDir+string(filepath.Separator), "./...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd.CombinedOutput()
})

// buildProgramsDir returns the directory of the built programs.
func buildProgramsDir(t *testing.T) string {
	t.Helper()
	if out, err := buildReleasePrograms(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return buildDir
}

// programPath returns the path of a program.
func programPath(dir, name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(dir, name)
}

func TestPrograms(t *testing.T) {
	dir := buildProgramsDir(t)
	entries := must.Get(os.ReadDir(dir))(t)
	if got, want := len(entries), len(pluginPages)+len(nonPluginPrograms); got != want {
		t.Errorf("%d programs, want %d: the plugins that have a document, and %q", got, want, nonPluginPrograms)
	}
	helper := programPath(dir, "docker-credential-regcred")
	if got, want := commandOutput(t, helper, "--version"), "docker-credential-regcred v9.8.7\n"; got != want {
		t.Errorf("--version: got %q, want %q", got, want)
	}
	testStatic(t, helper)
	testStatic(t, programPath(dir, "regcred-credential-provider"))
	if info, err := os.Stat(helper); err != nil || info.Size() > 8e6 {
		t.Errorf("%s has more than 8 MB, or none: %v", helper, err)
	}
	for name, document := range pluginPages {
		t.Run(name, func(t *testing.T) {
			path := programPath(dir, name)
			if got, want := commandOutput(t, path, "--version"), name+" v9.8.7\n"; got != want {
				t.Errorf("--version: got %q, want %q", got, want)
			}
			testHelp(t, commandOutput(t, path, "--help"), filepath.Join("..", "docs", "plugins", document))
			testStatic(t, path)
		})
	}
}

func commandOutput(t *testing.T, path string, args ...string) string {
	t.Helper()
	out, err := exec.Command(path, args...).Output()
	if err != nil {
		t.Fatalf("%s %q: %v", path, args, err)
	}
	return string(out)
}

// testHelp verifies that a program's help has an example, and that the document lists every flag.
func testHelp(t *testing.T, help, document string) {
	t.Helper()
	text := must.Get(os.ReadFile(document))(t)
	if !strings.Contains(help, "\nExample:\n  ") {
		t.Errorf("--help has no example:\n%s", help)
	}
	flags := regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[\w-]+)`).FindAllStringSubmatch(help, -1)
	if len(flags) == 0 {
		t.Errorf("--help lists no flags:\n%s", help)
	}
	for _, flag := range flags {
		if flag[1] == "--v" || flag[1] == "--version" {
			continue // documented in docs/plugins/README.md
		}
		if !strings.Contains(string(text), flag[1]) {
			t.Errorf("%s has nothing about %s", document, flag[1])
		}
	}
}

// testStatic verifies that the program needs no C library and no dynamic loader.
func testStatic(t *testing.T, path string) {
	t.Helper()
	info, err := buildinfo.ReadFile(path)
	if err != nil || !strings.HasPrefix(info.Path, "github.com/regcred/regcred/cmd/") {
		t.Errorf("build information: %+v, %v", info, err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	file := must.Get(elf.Open(path))(t)
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
			t.Errorf("it has a segment %v: it is not linked statically", segment.Type)
		}
	}
}
