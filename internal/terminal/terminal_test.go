// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// evil is what a plugin or a registry might say.
const evil = "\x1b[2Jok\rall is well\u202e"

// TestEscapes: whatever is printed, nothing of it is obeyed.
func TestEscapes(t *testing.T) {
	var stdout, stderr bytes.Buffer
	term := &Terminal{Stdout: &stdout, Stderr: &stderr}
	lay := func(do func(*Text)) func() {
		return func() {
			text := term.Text()
			do(text)
			if err := text.Print(&stdout); err != nil {
				t.Error(err)
			}
		}
	}
	for name, print := range map[string]func(){
		"note":     func() { term.Note("%s", evil) },
		"warning":  func() { term.Warn("%s", evil) },
		"error":    func() { term.Error(errors.Join(errors.New(evil), errors.New("b"))) },
		"hint":     func() { term.Hint(evil) },
		"comment":  func() { stdout.WriteString(Comment([]string{evil})) },
		"head":     lay(func(t *Text) { t.Head(evil) }),
		"item":     lay(func(t *Text) { t.Item(OK, evil) }),
		"detail":   lay(func(t *Text) { t.Detail("%s", evil) }),
		"line":     lay(func(t *Text) { t.Line(OK, evil) }),
		"below":    lay(func(t *Text) { t.Below(evil) }),
		"row":      lay(func(t *Text) { t.Row(OK, 4, evil, "x") }),
		"row text": lay(func(t *Text) { t.Row(OK, 4, "x", evil) }),
		"belowrow": lay(func(t *Text) { t.BelowRow(evil, evil) }),
		"pair":     lay(func(t *Text) { t.Pair(evil, evil) }),
		"hang":     lay(func(t *Text) { t.Hang(evil, evil) }),
		"quote":    lay(func(t *Text) { t.Quote("", evil) }),
		"table":    lay(func(t *Text) { t.Table([]string{"A"}, [][]string{{evil}}) }),
		"blocks":   lay(func(t *Text) { t.Width = 10; t.Table([]string{"A", "B"}, [][]string{{evil, evil}}) }),
	} {
		t.Run(name, func(t *testing.T) {
			stdout.Reset()
			stderr.Reset()
			print()
			got := stdout.String() + stderr.String()
			if strings.ContainsAny(got, "\x1b\r\u202e") || !strings.Contains(got, `\x1b[2Jok\rall`) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	var stderr bytes.Buffer
	term := &Terminal{Stderr: &stderr}
	term.Error(nil)
	term.Error(errors.Join(errors.New("a"), errors.Join(errors.New("b"), fmt.Errorf("c: %w", errors.New("d")))))
	term.Hint("h")
	if diff := cmp.Diff("error: a\nerror: b\nerror: c: d\nhint: h\n", stderr.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestNoTerminal: what is drawn is for a terminal alone.
func TestNoTerminal(t *testing.T) {
	var stderr bytes.Buffer
	term := &Terminal{Stdout: &stderr, Stderr: &stderr}
	layers := term.Layers()
	layers.Queue("layer", "sha256:0123456789abcdef", 10)
	layers.At("sha256:0123456789abcdef", 5)
	layers.Done("sha256:0123456789abcdef", 10)
	layers.Close()
	checks := term.Checks(3)
	checks.At(1, 2, "a")
	checks.Close()
	images := term.Images(t.Context(), 1)
	images.Begin("a")()
	if images.Above(&stderr) != &stderr {
		t.Error("lines do not go straight to what is no terminal")
	}
	images.Close()
	if term.OnScreen() || stderr.Len() > 0 {
		t.Errorf("drawn: %q", stderr.String())
	}
}

func TestUntil(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	term := &Text{Now: func() time.Time { return now }}
	at := now.Add(10 * time.Minute)
	if got, want := term.Until(&at), "03:14:05 (10m)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := term.Until(nil), "not cached"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWords(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Bytes(1023), "1023 B"}, {Bytes(1536), "1.5 KiB"}, {Bytes(3 << 30), "3.0 GiB"},
		{Millis(0.0012), "1.2 ms"}, {Millis(0.25), "250 ms"}, {Took(0.25), "250 ms"}, {Took(2.34), "2.3 s"},
		{ShellWord("a/b:c"), "a/b:c"}, {ShellWord(""), "''"}, {ShellWord("o'hara; rm"), `'o'\''hara; rm'`},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}
