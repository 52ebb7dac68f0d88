// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/must"
)

func TestRun(t *testing.T) {
	tests := []struct {
		name           string
		args           []string
		cancelled      bool
		code           int
		stdout, stderr string
	}{
		{name: "result", args: []string{"version"}, stdout: "regcred "},
		{name: "no arguments", stdout: "regcred finds "},
		{name: "unknown flag", args: []string{"--x"}, code: exitUsage, stderr: "error: unknown flag: --x\n"},
		{
			name: "interrupted", cancelled: true, code: exitFailed, stderr: "error: interrupted\n",
			args: []string{"get", "--config", "no-such-file", "--bin-dir", ".", "nginx"},
		},
		{
			name: "doctor interrupted", cancelled: true, code: exitFailed, stderr: "error: interrupted\n",
			args: []string{"doctor", "--config", "no-such-file", "--bin-dir", "."},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.cancelled {
				cancel()
			}
			var stdout, stderr bytes.Buffer
			code := run(ctx, tt.args, strings.NewReader(""), &stdout, &stderr, nil)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if got := stdout.String(); !strings.HasPrefix(got, tt.stdout) || tt.stdout == "" && got != "" {
				t.Errorf("stdout %q, want prefix %q", got, tt.stdout)
			}
			if got := stderr.String(); !strings.HasPrefix(got, tt.stderr) || tt.stderr == "" && got != "" {
				t.Errorf("stderr %q, want prefix %q", got, tt.stderr)
			}
		})
	}
}

func TestReport(t *testing.T) {
	failed := func(text, hint string) error { return withHint(errors.New(text), hint) }
	tests := []struct {
		name   string
		err    error
		code   int
		stderr string
	}{
		{"none", nil, exitOK, ""},
		{"code alone", exitWithCode(exitNoMatch), exitNoMatch, ""},
		{"hint of what was said before", &exitError{code: exitNoMatch, hint: "h"}, exitNoMatch, "hint: h\n"},
		{"each with its hint", errors.Join(failed("a", "h"), failed("b", "i")), exitFailed, "error: a\nhint: h\nerror: b\nhint: i\n"},
		{"the same hint", errors.Join(failed("a", "h"), failed("b", "h")), exitFailed, "error: a\nhint: h\nerror: b\n"},
		{"several lines of one hint", withHint(errors.Join(errors.New("a"), errors.New("b")), "h"), exitFailed, "error: a\nerror: b\nhint: h\n"},
		{"worst code", errors.Join(usageError("", "a"), failed("b", ""), exitWithCode(exitNoMatch)), exitUsage, "error: a\nerror: b\n"},
		{"wrapped", fmt.Errorf("demo: %w", failed("a", "h")), exitFailed, "error: demo: a\nhint: h\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stderr bytes.Buffer
			a := newApp(nil, nil, &stderr, nil)
			a.started = true
			if code := a.reportError(t.Context(), nil, tt.err); code != tt.code || stderr.String() != tt.stderr {
				t.Errorf("got %d, %q; want %d, %q", code, stderr.String(), tt.code, tt.stderr)
			}
		})
	}
}

// TestHelpWidth checks that the descriptions in help fit in 80 columns. Examples are
// indented and may be longer.
func TestHelpWidth(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" {
			return // cobra writes its own help
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > helpWidth && !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit((&app{}).rootCmd())
}

// TestOutputFormats checks that the default of -o is also a valid value, and that JSON
// is supported. The default for convert is the input's format.
func TestOutputFormats(t *testing.T) {
	found := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if f := cmd.Flags().Lookup("output"); f != nil {
			found++
			formats := f.Value.(*enumFlag).values
			if i := slices.Index(formats, cmp.Or(f.DefValue, "yaml")); i != 0 || !slices.Contains(formats, "json") || slices.Contains(formats, "") {
				t.Errorf("%s -o has %q, and by default %q", cmd.CommandPath(), formats, f.DefValue)
			}
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit((&app{}).rootCmd())
	if found < 10 {
		t.Errorf("%d commands have -o", found)
	}
}

// TestTwoRuns checks that a run does not affect the next one.
func TestTwoRuns(t *testing.T) {
	for range 2 {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"version", "-o", "json"}, nil, &stdout, &stderr, nil); code != 0 {
			t.Errorf("exit code %d: %s", code, stderr.String())
		}
		stdout.Reset()
		if run(t.Context(), []string{"version"}, nil, &stdout, &stderr, nil); !strings.HasPrefix(stdout.String(), "regcred ") {
			t.Errorf("got %q, want the text: -o json was for the run before", stdout.String())
		}
	}
}

// TestOnlyTerminalPrints checks that only package terminal prints, because other output
// is not escaped.
func TestOnlyTerminalPrints(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 40 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	printing := regexp.MustCompile(`fmt\.Print|print(ln)?\("|(Fprint(f|ln)?|WriteString)\((a|cmd|os)\.|\bStd(out|err)\.Write|OrStd(out|err)\(\)\.Write|slog\.New\w+Handler\(`)
	for _, name := range files {
		data := must.Get(os.ReadFile(name))(t)
		if found := printing.Find(data); found != nil && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s: %s: use internal/terminal", name, found)
		}
	}
}
