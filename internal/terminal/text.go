// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Text lays out a result for people, line by line. Everything in it is made
// printable first. The zero Text has no colours, and lines as long as they are.
type Text struct {
	Width int // columns; 0 = unlimited: not for a terminal, so that other programs get whole lines
	Color bool
	Now   func() time.Time // for Until

	out strings.Builder
}

// Mark is the first word of a line, and the only thing that has a colour.
type Mark string

// The severities. They are the same words in every command, in text and in
// JSON, so that a Mark can be made of any of those types.
const (
	OK      Mark = "ok"
	Error   Mark = "error"
	Warning Mark = "warning"
	Info    Mark = "info"
	Skipped Mark = "skipped" // it could not be tried
)

// The marks of what is neither good nor bad.
const (
	No   Mark = "no"   // it does not match
	None Mark = "none" // it has nothing to give
)

const markWidth = len(Skipped)

// Tally says how many there are of each severity, the worst first.
func Tally[S ~string](n map[S]int) string {
	var parts []string
	for _, m := range []Mark{Error, Warning, Info, Skipped, OK} {
		switch count := n[S(m)]; {
		case count == 0:
		case m == Error || m == Warning:
			parts = append(parts, Count(count, string(m)))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", count, m))
		}
	}
	return strings.Join(parts, ", ")
}

func (m Mark) color() string {
	switch m {
	case OK:
		return "\x1b[32m"
	case Warning, Skipped:
		return "\x1b[33m"
	case Error:
		return "\x1b[31m"
	}
	return ""
}

// pad returns m, coloured if that is wanted, filled with spaces to markWidth.
func (t *Text) pad(m Mark) string {
	fill := strings.Repeat(" ", max(0, markWidth-len(m)))
	if c := m.color(); t.Color && c != "" {
		return c + string(m) + "\x1b[0m" + fill
	}
	return string(m) + fill
}

// Blank adds an empty line.
func (t *Text) Blank() { t.out.WriteByte('\n') }

// Head adds the title of a section.
func (t *Text) Head(title string) { t.out.WriteString("\n" + inline(title) + "\n") }

// Item adds a line that begins with a mark, below a head.
func (t *Text) Item(m Mark, s string) {
	t.out.WriteString("  " + t.pad(m) + "  ")
	t.wrap(4+markWidth, 4+markWidth, s)
}

// Detail adds a line below an item, whose wrapped rest hangs by two.
func (t *Text) Detail(format string, args ...any) {
	const indent = 4 + markWidth
	t.out.WriteString(strings.Repeat(" ", indent))
	t.wrap(indent, indent+2, fmt.Sprintf(format, args...))
}

// Line adds a line of its own that begins with a mark; without one it is
// filled with spaces.
func (t *Text) Line(m Mark, s string) {
	t.out.WriteString(t.pad(m) + " ")
	t.wrap(markWidth+1, markWidth+3, s)
}

// Below adds what belongs to the line before.
func (t *Text) Below(s string) { t.Hang(strings.Repeat(" ", markWidth+3), s) }

// Row adds a mark, a label that is filled to so many columns, and s beside it.
func (t *Text) Row(m Mark, columns int, label, s string) {
	fmt.Fprintf(&t.out, "%s  %-*s", t.pad(m), columns, inline(label))
	t.wrap(markWidth+2+columns, markWidth+2+columns, s)
}

// BelowRow adds a label and a text that belong to the row before.
func (t *Text) BelowRow(label, s string) {
	t.Hang(fmt.Sprintf("%*s%-9s", markWidth+2, "", label), s)
}

// Pair adds a label and a value.
func (t *Text) Pair(label, value string) { t.Hang(fmt.Sprintf("%-14s", label), value) }

// Hang adds s beside a prefix, below which its wrapped rest hangs.
func (t *Text) Hang(prefix, s string) {
	prefix = inline(prefix)
	t.out.WriteString(prefix)
	indent := utf8.RuneCountInString(prefix)
	t.wrap(indent, indent, s)
}

// Quote adds the lines of s as they are, each behind a prefix.
func (t *Text) Quote(prefix, s string) {
	for line := range strings.Lines(s) {
		t.out.WriteString(strings.TrimRight(printable(prefix+strings.TrimRight(line, "\r\n")), " ") + "\n")
	}
}

// wrap adds s at column at, broken at spaces to fit the width; further lines
// begin at column indent. A word is never broken: it may be copied. Nor are
// spaces folded but those around a line's end: a path may have several.
func (t *Text) wrap(at, indent int, s string) {
	column, gap := at, 0
	for i, w := range strings.Split(inLine(printable(s)), " ") {
		n := utf8.RuneCountInString(w)
		switch {
		case i == 0:
		case w == "": // between two spaces
			gap++
			continue
		case t.Width > 0 && column+gap+1+n > t.Width:
			t.out.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			t.out.WriteString(strings.Repeat(" ", gap+1))
			column += gap + 1
		}
		t.out.WriteString(w)
		column += n
		gap = 0
	}
	t.out.WriteByte('\n')
}

// inLine makes one line of several.
func inLine(s string) string {
	var parts []string
	for _, line := range strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\t' }) {
		if line = strings.Trim(line, " "); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, " ")
}

// Until is a time of day with the time that is left. It adds nothing.
func (t *Text) Until(at *time.Time) string {
	if at == nil {
		return "not cached"
	}
	return fmt.Sprintf("%s (%s)", at.Local().Format(time.TimeOnly), Span(at.Sub(t.Now()).Round(time.Second)))
}

// Table adds rows under a header. Where a row would not fit, each row becomes
// a block of its own.
func (t *Text) Table(header []string, rows [][]string) {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(inline(cell)))
		}
	}
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	if t.Width > 0 && total > t.Width {
		t.blocks(header, rows)
		return
	}
	t.row(widths, header)
	for _, row := range rows {
		t.row(widths, row)
	}
}

// CutTable adds rows under a header, in which the cell of one column has the colour of
// the row's mark. A line that would not fit is cut, which is reported: so the last
// column is the one that may be long.
func (t *Text) CutTable(header []string, rows [][]string, column int, marks []Mark) (cut bool) {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(inline(cell)))
		}
	}
	t.cutRow(widths, header, -1, "")
	for i, row := range rows {
		if t.cutRow(widths, row, column, marks[i]) {
			cut = true
		}
	}
	return cut
}

// cutRow adds a row, of which one cell has a mark's colour; -1 means none.
func (t *Text) cutRow(widths []int, cells []string, column int, mark Mark) (cut bool) {
	begin := 0
	for _, w := range widths[:max(0, column)] {
		begin += w + 2
	}
	var b strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&b, "%-*s  ", widths[i], inline(cell))
	}
	line := []rune(strings.TrimRight(b.String(), " "))
	if cut = t.Width > 0 && len(line) > t.Width; cut {
		line = append(line[:t.Width-1], '…')
	}
	if color := mark.color(); column >= 0 && t.Color && color != "" && begin < len(line) {
		end := min(begin+utf8.RuneCountInString(inline(cells[column])), len(line))
		t.out.WriteString(string(line[:begin]) + color + string(line[begin:end]) + "\x1b[0m" + string(line[end:]) + "\n")
		return cut
	}
	t.out.WriteString(string(line) + "\n")
	return cut
}

func (t *Text) row(widths []int, cells []string) {
	var line strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&line, "%-*s  ", widths[i], inline(cell))
	}
	t.out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// blocks adds each row with its first cell in front and the others below.
func (t *Text) blocks(header []string, rows [][]string) {
	for _, row := range rows {
		first := inline(row[0])
		indent := utf8.RuneCountInString(first) + 2
		for i := 1; i < len(row); i++ {
			if i > 1 {
				first = ""
			}
			t.Hang(fmt.Sprintf("%-*s%-14s", indent, first, strings.ToLower(header[i])), row[i])
		}
	}
}

// Print writes what has been laid out; the text is empty then.
func (t *Text) Print(w io.Writer) error {
	_, err := io.WriteString(w, t.out.String())
	t.out.Reset()
	return err
}
