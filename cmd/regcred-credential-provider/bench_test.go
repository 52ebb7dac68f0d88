// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// emptyProgram and answeringPlugin are programs for measuring the lower bound of a response, which
// is the start of a Go program plus the run of a plugin. It is about a millisecond.
const (
	emptyProgram    = "package main\n\nfunc main() {}\n"
	answeringPlugin = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(`%s`) }\n"
)

// buildProgram builds a one-file program, or this package, with the flags of a release.
func buildProgram(b *testing.B, path, source string) {
	b.Helper()
	what := "."
	if source != "" {
		what = filepath.Join(b.TempDir(), "main.go")
		if err := os.WriteFile(what, []byte(source), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, what).CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
}

// BenchmarkAnswer measures a response with 20 providers, a response with 2 providers, an empty
// program and the plugin, with a warm page cache and warm counters. "×empty" is the response's time
// minus the plugin's time, divided by the time of the empty program. "×two" is the ratio of 20 to 2
// providers. Both use medians.
func BenchmarkAnswer(b *testing.B) {
	dir := b.TempDir()
	empty, one, dispatcher := filepath.Join(dir, "empty"), filepath.Join(dir, "one"), filepath.Join(dir, "dispatcher")
	buildProgram(b, empty, emptyProgram)
	answer := fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"cacheKeyType":"Image","auth":{"r0.example":{"username":"user","password":%q}}}`+"\n",
		protocol.KindResponse, plugin.V1, canary.PasswordSecret)
	buildProgram(b, one, fmt.Sprintf(answeringPlugin, answer))
	buildProgram(b, dispatcher, "")
	request, err := plugin.EncodeRequest(&plugin.Request{APIVersion: plugin.V1, Image: "r0.example/team/app"})
	if err != nil {
		b.Fatal(err)
	}
	run := func(path string, args ...string) time.Duration {
		cmd := exec.Command(path, args...)
		cmd.Stdin = bytes.NewReader(request)
		start := time.Now()
		out, err := cmd.Output()
		took := time.Since(start)
		if err != nil || path != empty && !bytes.Contains(out, []byte(canary.PasswordSecret)) {
			b.Fatalf("%s: %v", path, err)
		}
		return took
	}
	two, twenty := newStateDir(b, dispatcher, one, 2), newStateDir(b, dispatcher, one, 20)
	memory, err := os.MkdirTemp("/dev/shm", "counts") // in memory, like /run
	if err != nil {
		b.Skipf("no file system in memory: %v", err)
	}
	defer os.RemoveAll(memory)
	counts := "--count-dir=" + memory
	times := map[string][]time.Duration{}
	for b.Loop() {
		times["empty"] = append(times["empty"], run(empty))
		times["plugin"] = append(times["plugin"], run(one))
		times["two"] = append(times["two"], run(two, counts))
		times["twenty"] = append(times["twenty"], run(twenty, counts))
	}
	median := func(what string) float64 {
		slices.Sort(times[what])
		return float64(times[what][len(times[what])/2].Microseconds())
	}
	for _, what := range []string{"empty", "plugin", "two", "twenty"} {
		b.ReportMetric(median(what), "µs-"+what)
	}
	b.ReportMetric((median("twenty")-median("plugin"))/median("empty"), "×empty")
	b.ReportMetric(median("twenty")/median("two"), "×two")
	if info, err := os.Stat(dispatcher); err == nil {
		b.ReportMetric(float64(info.Size())/1e6, "MB")
	}
}

// newStateDir creates a state directory with n providers, of which the first serves the image, and returns its
// dispatcher.
func newStateDir(b *testing.B, dispatcher, one string, providers int) string {
	b.Helper()
	n := &testNode{TB: b, store: generation.Store{Dir: b.TempDir()}}
	var list []config.Provider
	for i := range providers {
		p := newProvider(fmt.Sprintf("p%d", i), nil)
		p.MatchImages = []string{fmt.Sprintf("r%d.example", i), fmt.Sprintf("*.r%d.example", i), fmt.Sprintf("r%d.example:5000/team", i)}
		list = append(list, p)
	}
	n.self = one
	n.activateProviders(list...)
	path := n.store.Path(entries.DispatcherName)
	n.requireNoError(os.Link(dispatcher, path))
	return path
}
