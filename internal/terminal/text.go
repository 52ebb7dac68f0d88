// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// defaultWidth is the width of help, and of a terminal that does not tell its own.
const defaultWidth = 80

// text lays out results for people. Everything that it prints is made
// printable first: names and messages come from files, plugins and registries.
type text struct {
	strings.Builder
	width int // 0 = unlimited: not for a terminal, so that other programs get whole lines
	color bool
}

func (a *app) newText() *text {
	t := &text{width: a.width}
	if f, ok := a.tty(); ok {
		t.width = defaultWidth
		t.color = !a.noColor && lookupEnv(a.environ, "NO_COLOR") == "" && lookupEnv(a.environ, "TERM") != "dumb"
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w >= 40 {
			t.width = w
		}
	}
	return t
}

// tty returns standard output if it is a terminal.
func (a *app) tty() (*os.File, bool) {
	f, ok := a.stdout.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// mark is the first word of a line, and the only thing that has a colour.
type mark string

const (
	markOK    mark = "ok"
	markFail  mark = "fail"
	markSkip  mark = "skip"
	markNo    mark = "no"
	markNone  mark = "none"
	markError mark = "err"
	markWarn  mark = "warn"
	markInfo  mark = "info"
)

const markWidth = 4

func (m mark) color() string {
	switch m {
	case markOK:
		return "\x1b[32m"
	case markWarn, markSkip:
		return "\x1b[33m"
	case markFail, markError:
		return "\x1b[31m"
	}
	return ""
}

// pad returns m, coloured if that is wanted, filled with spaces to markWidth.
func (t *text) pad(m mark) string {
	fill := strings.Repeat(" ", markWidth-len(m))
	if c := m.color(); t.color && c != "" {
		return c + string(m) + "\x1b[0m" + fill
	}
	return string(m) + fill
}

// head prints the title of a section.
func (t *text) head(title string) { t.WriteString("\n" + title + "\n") }

// item prints a line that begins with a mark.
func (t *text) item(m mark, s string) {
	t.WriteString("  " + t.pad(m) + "  ")
	t.wrap(4+markWidth, 4+markWidth, s)
}

// line prints a line of its own that begins with a mark.
func (t *text) line(m mark, s string) {
	t.WriteString(t.pad(m) + " ")
	t.wrap(markWidth+1, markWidth+3, s)
}

// below prints what belongs to the line before.
func (t *text) below(s string) {
	const indent = markWidth + 3
	t.WriteString(strings.Repeat(" ", indent))
	t.wrap(indent, indent, s)
}

// pair prints a label and a value.
func (t *text) pair(label, value string) {
	const indent = 14
	fmt.Fprintf(t, "%-*s", indent, label)
	t.wrap(indent, indent, value)
}

// detail prints a line below an item, whose wrapped rest hangs by two.
func (t *text) detail(format string, args ...any) {
	const indent = 4 + markWidth
	t.WriteString(strings.Repeat(" ", indent))
	t.wrap(indent, indent+2, fmt.Sprintf(format, args...))
}

// wrap prints s at column at, broken at spaces to fit the width; further
// lines begin at column indent. A word is never broken: it may be copied.
func (t *text) wrap(at, indent int, s string) {
	words := strings.Fields(printable(s))
	column := at
	for i, w := range words {
		n := utf8.RuneCountInString(w)
		switch {
		case i == 0:
		case t.width > 0 && column+1+n > t.width:
			t.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			t.WriteByte(' ')
			column++
		}
		t.WriteString(w)
		column += n
	}
	t.WriteByte('\n')
}

// table prints rows under a header. Where a row would not fit, each row
// becomes a block of its own.
func (t *text) table(header []string, rows [][]string) {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(printable(cell)))
		}
	}
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	if t.width > 0 && total > t.width {
		t.blocks(header, rows)
		return
	}
	t.row(widths, header)
	for _, row := range rows {
		t.row(widths, row)
	}
}

func (t *text) row(widths []int, cells []string) {
	var line strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&line, "%-*s  ", widths[i], printable(cell))
	}
	t.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// blocks prints each row with its first cell in front and the others below.
func (t *text) blocks(header []string, rows [][]string) {
	for _, row := range rows {
		first := printable(row[0])
		indent := utf8.RuneCountInString(first) + 2
		for i := 1; i < len(row); i++ {
			if i > 1 {
				first = ""
			}
			fmt.Fprintf(t, "%-*s%-14s", indent, first, strings.ToLower(header[i]))
			t.wrap(indent+14, indent+14, row[i])
		}
	}
}

// print writes what has been laid out.
func (t *text) print(w io.Writer) error {
	_, err := io.WriteString(w, t.String())
	return err
}

// printable escapes what a terminal would obey or could not show, so that a
// plugin's words cannot pass for ours.
func printable(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) || r == utf8.RuneError {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unprintable(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }

// span is a duration without the zeros at its end: 10m, not 10m0s. One that is
// shorter than a second remains as it is.
func span(d time.Duration) string {
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

// count is a number and a noun in the right form: "1 credential", "2 credentials".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		noun = stem + "ie"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// writeJSON writes the result of a command in the format of -o json.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// bytesText is a number of bytes for people.
func bytesText(n int64) string {
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
