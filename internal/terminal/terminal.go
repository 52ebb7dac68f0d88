// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package terminal is all that a command prints: results that are laid out for
// people, progress, errors with their hints, and times, sizes and counts in
// words. What it is given may come from files, plugins and registries, so here,
// and nowhere else, it is escaped: no escape sequence of theirs reaches a
// terminal. It knows nothing of what the results mean.
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

	"github.com/regcred/regcred/internal/shown"
)

// defaultWidth is that of a terminal that does not tell its own.
const defaultWidth = 80

// Terminal is where one run of a program prints: results on Stdout, what is to
// be said about them on Stderr. It need not be a terminal.
type Terminal struct {
	Stdout, Stderr io.Writer
	Width          int                      // of text; 0 = the terminal's, or unlimited if Stdout is none
	NoColor        bool                     // also: NO_COLOR in the environment
	Quiet          bool                     // of what goes to Stderr, errors alone
	Getenv         func(name string) string // of the environment
	Now            func() time.Time

	Wrote bool // a document was written to Stdout
}

// Text returns an empty text that fits standard output.
func (t *Terminal) Text() *Text {
	text := &Text{Width: t.Width, Now: t.Now}
	f := terminalOf(t.Stdout)
	if f == nil {
		return text
	}
	text.Width = defaultWidth
	text.Color = !t.NoColor && t.Getenv("NO_COLOR") == "" && !t.dumb()
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w >= 40 {
		text.Width = w
	}
	return text
}

func (t *Terminal) dumb() bool { return t.Getenv("TERM") == "dumb" }

// OnScreen reports whether standard output is a terminal, and not a file or
// another program.
func (t *Terminal) OnScreen() bool { return terminalOf(t.Stdout) != nil }

// terminalOf returns w if it is a terminal.
func terminalOf(w io.Writer) *os.File {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Note says on standard error what is worth knowing but no error.
func (t *Terminal) Note(format string, args ...any) { t.remark("note", fmt.Sprintf(format, args...)) }

// Warn says on standard error what may be wrong.
func (t *Terminal) Warn(format string, args ...any) {
	t.remark("warning", fmt.Sprintf(format, args...))
}

// Hint says on standard error what to do about an error.
func (t *Terminal) Hint(text string) { t.remark("hint", text) }

// remark says what is no error.
func (t *Terminal) remark(what, text string) {
	if !t.Quiet {
		t.say(what, text)
	}
}

// Error says on standard error what went wrong; each of joined errors has a line.
func (t *Terminal) Error(err error) {
	for _, e := range Flatten(err) {
		t.say("error", e.Error())
	}
}

// say says something in a line of its own. What it has of further lines is set
// in, so that none of them can pass for another word of ours.
func (t *Terminal) say(what, text string) {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ")
	fmt.Fprintf(t.Stderr, "%s: %s\n", what, printable(text))
}

// WriteRaw writes a document for another program as it is. On a terminal, which
// would obey it, it is only looked at.
func (t *Terminal) WriteRaw(document []byte) error {
	t.Wrote = true
	if t.OnScreen() {
		document = []byte(printable(string(document)))
	}
	_, err := t.Stdout.Write(document)
	return err
}

// Logger says on standard error what happens. Its handler quotes what is not
// printable.
func (t *Terminal) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// NobodyReads reports whether err says that the reader of standard output is
// gone, as in "regcred … | head". Whoever did that wants to hear no more.
func (t *Terminal) NobodyReads(err error) bool {
	f, ok := t.Stdout.(*os.File)
	failed, isPath := errors.AsType[*fs.PathError](err)
	return ok && isPath && failed.Path == f.Name() && errors.Is(failed, syscall.EPIPE)
}

// Flatten is [shown.Flatten].
func Flatten(err error) []error { return shown.Flatten(err) }
