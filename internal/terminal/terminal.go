// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package terminal prints the output of a command: results as text, progress, errors
// with hints, and formatted times, sizes and counts. It escapes all text, because text
// from files, plugins and registries may contain control sequences.
package terminal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/regcred/regcred/internal/textfmt"
)

// defaultWidth is the width of a terminal whose size is unknown.
const defaultWidth = 80

// Terminal prints results on Stdout and messages on Stderr. Neither needs to be a
// terminal.
type Terminal struct {
	Stdout, Stderr io.Writer
	Width          int                      // in columns; 0 means the width of the terminal, or no limit if Stdout is not a terminal
	NoColor        bool                     // disable colors; NO_COLOR in the environment does the same
	Quiet          bool                     // print only errors to Stderr
	Getenv         func(name string) string // reads the environment
	Now            func() time.Time

	WroteDocument bool // a document was written to Stdout
}

// NewText returns an empty Text with the width of standard output.
func (t *Terminal) NewText() *Text {
	text := &Text{Width: t.Width, Now: t.Now}
	f := asTerminal(t.Stdout)
	if f == nil {
		return text
	}
	text.Width = defaultWidth
	text.Color = !t.NoColor && t.Getenv("NO_COLOR") == "" && !t.isDumb()
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w >= 40 {
		text.Width = w
	}
	return text
}

func (t *Terminal) isDumb() bool { return t.Getenv("TERM") == "dumb" }

// StdoutIsTerminal reports whether standard output is a terminal.
func (t *Terminal) StdoutIsTerminal() bool { return asTerminal(t.Stdout) != nil }

// asTerminal returns w as a file if w is a terminal. Otherwise it returns nil.
func asTerminal(w io.Writer) *os.File {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Note prints a note on standard error.
func (t *Terminal) Note(format string, args ...any) {
	t.printUnlessQuiet("note", fmt.Sprintf(format, args...))
}

// Warn prints a warning on standard error.
func (t *Terminal) Warn(format string, args ...any) {
	t.printUnlessQuiet("warning", fmt.Sprintf(format, args...))
}

// Hint prints a hint about an error on standard error.
func (t *Terminal) Hint(text string) { t.printUnlessQuiet("hint", text) }

// printUnlessQuiet prints a message unless Quiet is set.
func (t *Terminal) printUnlessQuiet(what, text string) {
	if !t.Quiet {
		t.printMessage(what, text)
	}
}

// Error prints each joined error on standard error.
func (t *Terminal) Error(err error) {
	for _, e := range FlattenErrors(err) {
		t.printMessage("error", e.Error())
	}
}

// printMessage prints a message. It indents all lines after the first, so that they cannot
// imitate another message.
func (t *Terminal) printMessage(what, text string) {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ")
	fmt.Fprintf(t.Stderr, "%s: %s\n", what, escapeLines(text))
}

// WriteRaw writes a document for another program unchanged, or escaped if standard
// output is a terminal.
func (t *Terminal) WriteRaw(document []byte) error {
	t.WroteDocument = true
	if t.StdoutIsTerminal() {
		document = []byte(escapeLines(string(document)))
	}
	_, err := t.Stdout.Write(document)
	return err
}

// Logger returns a logger that writes to standard error and escapes values.
func (t *Terminal) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// IsBrokenPipe reports whether err means that the reader of standard output is gone, as
// in "regcred … | head". In that case no error is printed.
func (t *Terminal) IsBrokenPipe(err error) bool {
	f, ok := t.Stdout.(*os.File)
	failed, isPath := errors.AsType[*fs.PathError](err)
	return ok && isPath && failed.Path == f.Name() && errors.Is(failed, syscall.EPIPE)
}

// FlattenErrors is [textfmt.FlattenErrors].
func FlattenErrors(err error) []error { return textfmt.FlattenErrors(err) }

// FormatDuration formats a duration without trailing zero units: 10m, not 10m0s.
func FormatDuration(d time.Duration) string {
	if d.Abs() < time.Second {
		return d.String()
	}
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// FormatMillis formats a short duration, which is given in seconds, in milliseconds.
func FormatMillis(seconds float64) string {
	if seconds < 0.0095 {
		return fmt.Sprintf("%.1f ms", seconds*1000)
	}
	return fmt.Sprintf("%.0f ms", seconds*1000)
}

// FormatElapsed formats a duration, which is given in seconds, in milliseconds or seconds.
func FormatElapsed(seconds float64) string {
	if seconds < 1 {
		return FormatMillis(seconds)
	}
	return fmt.Sprintf("%.1f s", seconds)
}

// FormatBytes formats a number of bytes with a unit.
func FormatBytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit {
		value, prefix = value/unit, prefix+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[prefix])
}

// FormatCount is [textfmt.FormatCount].
func FormatCount(n int, noun string) string { return textfmt.FormatCount(n, noun) }

// QuoteShellPath is [textfmt.QuoteShellPath].
func QuoteShellPath(path string) string { return textfmt.QuoteShellPath(path) }

// QuoteShellWord is [textfmt.QuoteShellWord].
func QuoteShellWord(s string) string { return textfmt.QuoteShellWord(s) }

// CommentLines formats lines as YAML or shell comments.
func CommentLines(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("# " + escapeLine(line) + "\n")
	}
	return b.String()
}

// IsPrintable reports whether s is one line without control characters.
func IsPrintable(s string) bool { return escapeLine(s) == s }

// IsPrintableLines reports whether s contains no control characters other than line
// endings.
func IsPrintableLines(s string) bool { return escapeLines(s) == s }

// escapeLines and escapeLine escape all printed text.
func escapeLines(s string) string { return textfmt.EscapeLines(s) }
func escapeLine(s string) string  { return textfmt.EscapeLine(s) }

// WriteJSON writes a result as [textfmt.EncodeResult] encodes it.
func (t *Terminal) WriteJSON(v any) error {
	doc, err := textfmt.EncodeResult(v)
	if err != nil {
		return err
	}
	return t.WriteRaw(doc)
}

// WriteForeignJSON writes a document with a third-party schema, such as SARIF.
func (t *Terminal) WriteForeignJSON(v any) error {
	doc, err := EncodeJSON(v)
	if err != nil {
		return err
	}
	return t.WriteRaw(doc)
}

// EncodeJSON is [textfmt.EncodeJSON].
func EncodeJSON(v any) ([]byte, error) { return textfmt.EncodeJSON(v) }
