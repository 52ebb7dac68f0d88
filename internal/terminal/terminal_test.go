// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vbauerster/mpb/v8"

	"github.com/regcred/regcred/internal/must"
)

// controlText is text that a plugin or a registry could return.
const controlText = "\x1b[2Jok\rall is well\u202e"

// TestEscapes verifies that printed text contains no terminal control sequences.
func TestEscapes(t *testing.T) {
	var stdout, stderr bytes.Buffer
	term := &Terminal{Stdout: &stdout, Stderr: &stderr}
	lay := func(do func(*Text)) func() {
		return func() {
			text := term.NewText()
			do(text)
			if err := text.FlushTo(&stdout); err != nil {
				t.Error(err)
			}
		}
	}
	for name, print := range map[string]func(){
		"note":     func() { term.Note("%s", controlText) },
		"warning":  func() { term.Warn("%s", controlText) },
		"error":    func() { term.Error(errors.Join(errors.New(controlText), errors.New("b"))) },
		"hint":     func() { term.Hint(controlText) },
		"comment":  func() { stdout.WriteString(CommentLines([]string{controlText})) },
		"head":     lay(func(t *Text) { t.Heading(controlText) }),
		"item":     lay(func(t *Text) { t.Item(MarkOK, controlText) }),
		"detail":   lay(func(t *Text) { t.Detail("%s", controlText) }),
		"line":     lay(func(t *Text) { t.MarkedLine(MarkOK, controlText) }),
		"below":    lay(func(t *Text) { t.ContinuationLine(controlText) }),
		"row":      lay(func(t *Text) { t.Row(MarkOK, 4, controlText, "x") }),
		"row text": lay(func(t *Text) { t.Row(MarkOK, 4, "x", controlText) }),
		"belowrow": lay(func(t *Text) { t.ContinuationRow(controlText, controlText) }),
		"pair":     lay(func(t *Text) { t.Pair(controlText, controlText) }),
		"hang":     lay(func(t *Text) { t.HangingIndent(controlText, controlText) }),
		"quote":    lay(func(t *Text) { t.Quote("", controlText) }),
		"table":    lay(func(t *Text) { t.Table([]string{"A"}, [][]string{{controlText}}) }),
		"blocks":   lay(func(t *Text) { t.Width = 10; t.Table([]string{"A", "B"}, [][]string{{controlText, controlText}}) }),
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

// TestTextCannotForgeLines verifies that text with line breaks cannot imitate one of
// regcred's own lines.
func TestTextCannotForgeLines(t *testing.T) {
	const text = "ci\nerror: forged"
	const row = "ci\nerror    forged"
	lay := func(do func(*Text)) string {
		text := &Text{}
		do(text)
		return text.out.String()
	}
	say := func(do func(*Terminal)) string {
		var stderr bytes.Buffer
		do(&Terminal{Stderr: &stderr})
		return stderr.String()
	}
	for name, got := range map[string]string{
		"note":     say(func(t *Terminal) { t.Note("%s", text) }),
		"warning":  say(func(t *Terminal) { t.Warn("%s", text) }),
		"hint":     say(func(t *Terminal) { t.Hint(text) }),
		"error":    say(func(t *Terminal) { t.Error(errors.New(text)) }),
		"comment":  CommentLines([]string{text}),
		"head":     lay(func(t *Text) { t.Heading(text) }),
		"item":     lay(func(t *Text) { t.Item(MarkOK, row) }),
		"detail":   lay(func(t *Text) { t.Detail("%s", row) }),
		"line":     lay(func(t *Text) { t.MarkedLine(MarkOK, row) }),
		"row":      lay(func(t *Text) { t.Row(MarkOK, 4, row, row) }),
		"belowrow": lay(func(t *Text) { t.ContinuationRow(row, row) }),
		"pair":     lay(func(t *Text) { t.Pair(row, row) }),
		"hang":     lay(func(t *Text) { t.HangingIndent(row, row) }),
		"table":    lay(func(t *Text) { t.Table([]string{"A", row}, [][]string{{row, row}}) }),
		"blocks":   lay(func(t *Text) { t.Width = 10; t.Table([]string{"A", row}, [][]string{{row, row}}) }),
	} {
		for line := range strings.Lines(got) {
			if strings.HasPrefix(line, "error") && name != "error" || strings.HasPrefix(line, "error: forged") {
				t.Errorf("%s: a line is forged:\n%s", name, got)
			}
		}
	}
}

// TestProgressEscapes verifies that names next to progress bars are escaped.
func TestProgressEscapes(t *testing.T) {
	const name = "\n\x1b[2J" + controlText
	for what, draw := range map[string]func(p *mpb.Progress, drawn func()){
		"layer": func(p *mpb.Progress, drawn func()) {
			l := &LayerProgress{out: p, bars: map[string]*mpb.Bar{}}
			l.Queue("layer", "sha256:"+name, 10)
			drawn()
			l.Close()
		},
		"check": func(p *mpb.Progress, drawn func()) {
			c := &CheckProgress{singleBar: singleBar{out: p}}
			c.addBar(40)
			drawn() // before the first check runs
			c.Update(1, 2, name)
			drawn()
			c.Close()
		},
		"image": func(p *mpb.Progress, drawn func()) {
			i := &ImageProgress{singleBar{out: p}}
			i.addTotalBar(1)
			end := i.Show(name)
			drawn()
			end()
			i.Close()
		},
	} {
		t.Run(what, func(t *testing.T) {
			var screen bytes.Buffer
			refresh := make(chan any)
			p := mpb.New(mpb.WithOutput(&screen), mpb.WithManualRefresh(refresh), mpb.WithWidth(20))
			draw(p, func() {
				for range 3 { // each is sent after the previous one is drawn
					refresh <- time.Now()
				}
			})
			if got := screen.String(); strings.Contains(got, "\x1b[2J") || !strings.Contains(got, `\n\x1b[`) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestQuiet(t *testing.T) {
	var stderr bytes.Buffer
	term := &Terminal{Stderr: &stderr, Quiet: true}
	term.Note("a")
	term.Warn("b")
	term.Hint("c")
	term.Error(errors.New("d"))
	if got, want := stderr.String(), "error: d\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriteJSON(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   any
		want string
	}{
		{"fields", struct {
			A int `json:"a"`
		}{1}, "{\n  \"schemaVersion\": 1,\n  \"a\": 1\n}\n"},
		{"none", struct{}{}, "{\n  \"schemaVersion\": 1\n}\n"},
		{"list", []int{1}, ""},
		{"not JSON", func() {}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout bytes.Buffer
			err := (&Terminal{Stdout: &stdout}).WriteJSON(tt.in)
			if stdout.String() != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v; want %q", stdout.String(), err, tt.want)
			}
		})
	}
}

// TestJSONObeyed verifies that JSON output contains no terminal control sequences, and that its values are unchanged.
func TestJSONObeyed(t *testing.T) {
	const value = "\x00\x1b[2J\x7f\u0085\u009b31m\u061c\u200e\u202e\u2028\u2029\u2066\ufeff\U000e0001<é世>\\\""
	var stdout bytes.Buffer
	term := &Terminal{Stdout: &stdout}
	for name, write := range map[string]func(any) error{"ours": term.WriteJSON, "foreign": term.WriteForeignJSON} {
		stdout.Reset()
		must.Do(t, write(map[string]string{value: value}))
		if got := escapeLines(stdout.String()); got != stdout.String() {
			t.Errorf("%s: a terminal obeys %q", name, stdout.String())
		}
		if !strings.Contains(stdout.String(), "<é世>") {
			t.Errorf("%s: more is escaped than has to be: %s", name, stdout.String())
		}
		var back map[string]any
		if err := json.Unmarshal(stdout.Bytes(), &back); err != nil || back[value] != value {
			t.Errorf("%s: read back %q, %v", name, back, err)
		}
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

// TestNoTerminal verifies that progress is drawn only on a terminal.
func TestNoTerminal(t *testing.T) {
	var stderr bytes.Buffer
	term := &Terminal{Stdout: &stderr, Stderr: &stderr}
	layers := term.NewLayerProgress()
	layers.Queue("layer", "sha256:0123456789abcdef", 10)
	layers.SetBytes("sha256:0123456789abcdef", 5)
	layers.Done("sha256:0123456789abcdef", 10)
	layers.Close()
	checks := term.NewCheckProgress(3)
	checks.Update(1, 2, "a")
	checks.Close()
	images := term.NewImageProgress(t.Context(), 1)
	images.Show("a")()
	if images.WriterAbove(&stderr) != &stderr {
		t.Error("lines are buffered without a terminal")
	}
	images.Close()
	if term.StdoutIsTerminal() || stderr.Len() > 0 {
		t.Errorf("drawn: %q", stderr.String())
	}
}

func TestIsPrintable(t *testing.T) {
	for in, want := range map[string]bool{"": true, "a é": true, "a\nb": false, "a\tb": false, controlText: false, "\xff": false} {
		if got := IsPrintable(in); got != want {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
	}
}

func TestFormatExpiry(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	term := &Text{Now: func() time.Time { return now }}
	at := now.Add(10 * time.Minute)
	if got, want := term.FormatExpiry(&at), "03:14:05 (10m)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := term.FormatExpiry(nil), "not cached"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWords(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{FormatBytes(1023), "1023 B"}, {FormatBytes(1536), "1.5 KiB"}, {FormatBytes(3 << 30), "3.0 GiB"},
		{FormatMillis(0.0012), "1.2 ms"}, {FormatMillis(0.25), "250 ms"}, {FormatElapsed(0.25), "250 ms"}, {FormatElapsed(2.34), "2.3 s"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}
