// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// maxAuthorPlugin is the size limit, in bytes, that docs/plugin-authors.md
// states for its plugin.
const maxAuthorPlugin = 3_000_000

// authorGuideStep is one step of docs/plugin-authors.md. It writes a file or runs a command.
type authorGuideStep struct {
	file    string // the file to write text to; "" if the step runs a command
	text    string
	command string
	output  string // expected output; "" means unspecified
}

// TestAuthorPath follows docs/plugin-authors.md in an empty directory. It uses this checkout
// instead of downloads (see [author.command]).
func TestAuthorPath(t *testing.T) {
	for _, tool := range []string{"go", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s command", tool)
		}
	}
	if runtime.GOOS == "windows" {
		t.Skip("the document is written for a POSIX shell")
	}
	steps := authorGuideSteps(t, readLines(t, "docs/plugin-authors.md"))
	w := newAuthorGuide(t)
	begin := time.Now()
	w.runSteps(t, steps)
	t.Logf("%d steps took %s", len(steps), time.Since(begin).Round(time.Second/10))
	if len(w.downloads) != 0 {
		t.Errorf("the document no longer has the downloads that the test replaces: %q", w.downloads)
	}
	info := must.Get(os.Stat(filepath.Join(w.dir, "my-plugin")))(t)
	t.Logf("the plugin has %d bytes", info.Size())
	if info.Size() >= maxAuthorPlugin {
		t.Errorf("the plugin has %d bytes, want less than %d", info.Size(), maxAuthorPlugin)
	}
}

// authorGuideSteps parses the section "A plugin in five minutes". The name of a Go file precedes its
// code block. In a console block, lines without a $ are output.
func authorGuideSteps(t *testing.T, doc string) []authorGuideStep {
	t.Helper()
	_, section, _ := strings.Cut(doc, "\n## A plugin in five minutes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var steps []authorGuideStep
	block := regexp.MustCompile("(?ms)(?:`([\\w.-]+)`:\n\n)?^```(\\w+)\n(.*?)^```$")
	for _, m := range block.FindAllStringSubmatch(section, -1) {
		name, language, text := m[1], m[2], m[3]
		switch {
		case language == "go" && name != "":
			steps = append(steps, authorGuideStep{file: name, text: text})
		case language == "console":
			steps = append(steps, consoleSteps(text)...)
		default:
			t.Fatalf("a block of %s, named %q, is neither a file nor commands", language, name)
		}
	}
	if len(steps) < 8 {
		t.Fatalf("%d steps found; has the document changed its form?", len(steps))
	}
	return steps
}

func consoleSteps(text string) []authorGuideStep {
	var steps []authorGuideStep
	for line := range strings.Lines(text) {
		command, ok := strings.CutPrefix(line, "$ ")
		if ok {
			steps = append(steps, authorGuideStep{command: strings.TrimSuffix(command, "\n")})
		} else if len(steps) > 0 {
			steps[len(steps)-1].output += line
		}
	}
	return steps
}

// docReader simulates a reader of the document who has an empty directory and Go, but no network.
type docReader struct {
	dir       string
	environ   []string
	downloads map[string]string // local replacements for commands that download
}

func newAuthorGuide(t *testing.T) *docReader {
	t.Helper()
	checkout := must.Get(os.Getwd())(t)
	bin := t.TempDir()
	w := &docReader{dir: t.TempDir(), downloads: map[string]string{
		"go mod init example.com/my-plugin": fmt.Sprintf(
			"go mod init example.com/my-plugin && go mod edit -replace 'github.com/regcred/regcred=%s'", checkout),
		"go install github.com/regcred/regcred/cmd/regcred@latest": fmt.Sprintf(
			"go build -C '%s' -o '%s' ./cmd/regcred", checkout, filepath.Join(bin, "regcred")),
	}}
	w.environ = append(os.Environ(),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		// Use -trimpath like the document, so that the build cache is shared.
		"GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOFLAGS=-trimpath "+os.Getenv("GOFLAGS"), "GOWORK=off")
	return w
}

// runnableCommand returns a command of the document, or its replacement if the command downloads
// something. The other modules are in the module cache.
func (w *docReader) runnableCommand(line string) string {
	if instead, ok := w.downloads[line]; ok {
		delete(w.downloads, line)
		return instead
	}
	return line
}

// runSteps runs the steps in one shell, so that variables persist. It allows five minutes, as the
// document states.
func (w *docReader) runSteps(t *testing.T, steps []authorGuideStep) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	output := t.TempDir()
	var script strings.Builder
	for i, s := range steps {
		if s.file != "" {
			fmt.Fprintf(&script, "cat >'%s' <<'END OF FILE'\n%sEND OF FILE\n", s.file, s.text)
			continue
		}
		fmt.Fprintf(&script, "printed='%s/%d'\n{ %s\n} >\"$printed\" || { cat \"$printed\"; exit %d; }\n", output, i, w.runnableCommand(s.command), i+1)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", script.String())
	cmd.Dir, cmd.Env, cmd.WaitDelay = w.dir, w.environ, time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		step := "a step"
		if code := cmd.ProcessState.ExitCode(); code > 0 && code <= len(steps) {
			step = steps[code-1].command
		}
		t.Fatalf("%s: %v\n%s", step, err, said.String())
	}
	for i, s := range steps {
		if s.output == "" {
			continue
		}
		if got := readLines(t, filepath.Join(output, fmt.Sprint(i))); got != s.output {
			t.Errorf("%s\nprints    %s\nand not   %s", s.command, got, s.output)
		}
	}
}
