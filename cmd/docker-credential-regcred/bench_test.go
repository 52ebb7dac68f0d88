// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// emptyProgram and answeringPlugin are programs for measuring the lower bound of a "get" request,
// which is the start of a Go program plus the run of a plugin.
const (
	emptyProgram    = "package main\n\nfunc main() {}\n"
	answeringPlugin = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(`%s`) }\n"
)

// buildProgram builds a one-file program, or a package, with the flags of a release.
func buildProgram(b *testing.B, dir, name, source string) string {
	b.Helper()
	what := "."
	if source != "" {
		what = filepath.Join(b.TempDir(), "main.go")
		if err := os.WriteFile(what, []byte(source), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	path := filepath.Join(dir, name)
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, what).CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// BenchmarkGet measures a "get" request with 20 providers and a warm page cache. "×floor" is its median time, divided
// by the sum of the medians of an empty program and of the plugin.
func BenchmarkGet(b *testing.B) {
	dir := b.TempDir()
	empty := buildProgram(b, dir, "empty", emptyProgram)
	plugin := buildProgram(b, dir, "p7", fmt.Sprintf(answeringPlugin, formatResponse("r7.example", "user", canary.PasswordSecret)))
	helper := buildProgram(b, dir, "helper", "")
	config := filepath.Join(dir, "c.yaml")
	var entries []string
	for i := range 20 {
		entries = append(entries, fmt.Sprintf("p%d r%d.example", i, i))
	}
	if err := os.WriteFile(config, []byte(providersConfig(entries...)), 0o600); err != nil {
		b.Fatal(err)
	}
	run := func(stdin, path string, args ...string) time.Duration {
		cmd := exec.Command(path, args...)
		cmd.Env = []string{"REGCRED_CONFIG=" + config, "REGCRED_BIN_DIR=" + dir}
		cmd.Stdin = strings.NewReader(stdin)
		start := time.Now()
		out, err := cmd.Output()
		took := time.Since(start)
		if err != nil || path == helper && !strings.Contains(string(out), canary.PasswordSecret) {
			b.Fatalf("%s: %v", path, err)
		}
		return took
	}
	var floor, got []time.Duration
	for b.Loop() {
		floor = append(floor, run("", empty)+run("", plugin))
		got = append(got, run("r7.example", helper, "get"))
	}
	slices.Sort(floor)
	slices.Sort(got)
	f, g := floor[len(floor)/2], got[len(got)/2]
	b.ReportMetric(float64(f.Microseconds()), "µs-floor")
	b.ReportMetric(float64(g.Microseconds()), "µs-get")
	b.ReportMetric(float64(g)/float64(f), "×floor")
	if info, err := os.Stat(helper); err == nil {
		b.ReportMetric(float64(info.Size())/1e6, "MB")
	}
}
