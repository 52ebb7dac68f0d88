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

// Text formats a result line by line. It escapes all of its input. The zero Text has no
// colors and no line breaks.
type Text struct {
	Width int // in columns; 0 means unlimited, so that other programs get whole lines
	Color bool
	Now   func() time.Time // for FormatExpiry

	out strings.Builder
}

// Mark is the first word of a line, and the only colored part.
type Mark string

// Severities, as in package finding.
const (
	MarkOK      Mark = "ok"
	MarkError   Mark = "error"
	MarkWarning Mark = "warning"
	MarkInfo    Mark = "info"
	MarkSkipped Mark = "skipped" // the check could not run
)

// Marks that are not severities.
const (
	MarkNoMatch      Mark = "no"   // no match
	MarkNoCredential Mark = "none" // no credential
)

const markWidth = len(MarkSkipped)

// SeverityCounts returns the number of findings for each severity, the worst first.
func SeverityCounts[S ~string](n map[S]int) string {
	var parts []string
	for _, m := range []Mark{MarkError, MarkWarning, MarkInfo, MarkSkipped, MarkOK} {
		switch count := n[S(m)]; {
		case count == 0:
		case m == MarkError || m == MarkWarning:
			parts = append(parts, FormatCount(count, string(m)))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", count, m))
		}
	}
	return strings.Join(parts, ", ")
}

func (m Mark) colorCode() string {
	switch m {
	case MarkOK:
		return "\x1b[32m"
	case MarkWarning, MarkSkipped:
		return "\x1b[33m"
	case MarkError:
		return "\x1b[31m"
	}
	return ""
}

// paddedMark pads m with spaces to markWidth, and colors it if t.Color is set.
func (t *Text) paddedMark(m Mark) string {
	fill := strings.Repeat(" ", max(0, markWidth-len(m)))
	if c := m.colorCode(); t.Color && c != "" {
		return c + string(m) + "\x1b[0m" + fill
	}
	return string(m) + fill
}

// BlankLine adds an empty line.
func (t *Text) BlankLine() { t.out.WriteByte('\n') }

// Heading adds the title of a section.
func (t *Text) Heading(title string) { t.out.WriteString("\n" + escapeLine(title) + "\n") }

// Item adds a line with a mark under a section title.
func (t *Text) Item(m Mark, s string) {
	t.out.WriteString("  " + t.paddedMark(m) + "  ")
	t.appendWrapped(4+markWidth, 4+markWidth, s)
}

// Detail adds a line under an item. Continuation lines are indented by two.
func (t *Text) Detail(format string, args ...any) {
	const indent = 4 + markWidth
	t.out.WriteString(strings.Repeat(" ", indent))
	t.appendWrapped(indent, indent+2, fmt.Sprintf(format, args...))
}

// MarkedLine adds a line with a mark. An empty mark is replaced by spaces.
func (t *Text) MarkedLine(m Mark, s string) {
	t.out.WriteString(t.paddedMark(m) + " ")
	t.appendWrapped(markWidth+1, markWidth+3, s)
}

// ContinuationLine adds a line that continues the previous one.
func (t *Text) ContinuationLine(s string) { t.HangingIndent(strings.Repeat(" ", markWidth+3), s) }

// Row adds a mark, a label of fixed width, and s.
func (t *Text) Row(m Mark, columns int, label, s string) {
	fmt.Fprintf(&t.out, "%s  %-*s", t.paddedMark(m), columns, escapeLine(label))
	t.appendWrapped(markWidth+2+columns, markWidth+2+columns, s)
}

// ContinuationRow adds a label and a text that continue the previous row.
func (t *Text) ContinuationRow(label, s string) {
	t.HangingIndent(fmt.Sprintf("%*s%-9s", markWidth+2, "", label), s)
}

// Pair adds a label and a value.
func (t *Text) Pair(label, value string) { t.HangingIndent(fmt.Sprintf("%-14s", label), value) }

// HangingIndent adds s after a prefix. Continuation lines are indented by the prefix.
func (t *Text) HangingIndent(prefix, s string) {
	prefix = escapeLine(prefix)
	t.out.WriteString(prefix)
	indent := utf8.RuneCountInString(prefix)
	t.appendWrapped(indent, indent, s)
}

// Quote adds the lines of s unchanged, each with a prefix.
func (t *Text) Quote(prefix, s string) {
	for line := range strings.Lines(s) {
		t.out.WriteString(strings.TrimRight(escapeLines(prefix+strings.TrimRight(line, "\r\n")), " ") + "\n")
	}
}

// appendWrapped appends s and wraps it to the width. The first line starts at column at, and continuation
// lines start at column indent. wrap does not break words, because users may copy them. It keeps
// repeated spaces, because a path may contain them.
func (t *Text) appendWrapped(at, indent int, s string) {
	column, gap := at, 0
	for i, w := range strings.Split(joinLines(escapeLines(s)), " ") {
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

// joinLines joins lines into a single line.
func joinLines(s string) string {
	var parts []string
	for _, line := range strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\t' }) {
		if line = strings.Trim(line, " "); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, " ")
}

// FormatExpiry formats a time of day with the remaining time. For nil, it returns "not cached".
func (t *Text) FormatExpiry(at *time.Time) string {
	if at == nil {
		return "not cached"
	}
	return fmt.Sprintf("%s (%s)", at.Local().Format(time.TimeOnly), FormatDuration(at.Sub(t.Now()).Round(time.Second)))
}

// Table adds rows under a header. If a row is too wide, each row becomes a block of
// lines.
func (t *Text) Table(header []string, rows [][]string) {
	widths := columnWidths(header, rows)
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	if t.Width > 0 && total > t.Width {
		t.tableBlocks(header, rows)
		return
	}
	for _, row := range append([][]string{header}, rows...) {
		t.out.WriteString(rowText(widths, row) + "\n")
	}
}

func columnWidths(header []string, rows [][]string) []int {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(escapeLine(cell)))
		}
	}
	return widths
}

// rowText pads the cells of a row to the columns' widths.
func rowText(widths []int, cells []string) string {
	var line strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&line, "%-*s  ", widths[i], escapeLine(cell))
	}
	return strings.TrimRight(line.String(), " ")
}

// TruncatedTable adds rows under a header. The cells of one column have the color of their
// row's mark. TruncatedTable truncates lines that are too wide and reports whether it did.
func (t *Text) TruncatedTable(header []string, rows [][]string, column int, marks []Mark) (cut bool) {
	widths := columnWidths(header, rows)
	t.truncatedRow(widths, header, -1, "")
	for i, row := range rows {
		if t.truncatedRow(widths, row, column, marks[i]) {
			cut = true
		}
	}
	return cut
}

// truncatedRow adds a row. The cell in column has the mark's color; -1 means none.
func (t *Text) truncatedRow(widths []int, cells []string, column int, mark Mark) (cut bool) {
	begin := 0
	for _, w := range widths[:max(0, column)] {
		begin += w + 2
	}
	line := []rune(rowText(widths, cells))
	if cut = t.Width > 0 && len(line) > t.Width; cut {
		line = append(line[:t.Width-1], '…')
	}
	if color := mark.colorCode(); column >= 0 && t.Color && color != "" && begin < len(line) {
		end := min(begin+utf8.RuneCountInString(escapeLine(cells[column])), len(line))
		t.out.WriteString(string(line[:begin]) + color + string(line[begin:end]) + "\x1b[0m" + string(line[end:]) + "\n")
		return cut
	}
	t.out.WriteString(string(line) + "\n")
	return cut
}

// tableBlocks adds each row as a block with one line per cell. The first cell is only in the
// block's first line.
func (t *Text) tableBlocks(header []string, rows [][]string) {
	for _, row := range rows {
		first := escapeLine(row[0])
		indent := utf8.RuneCountInString(first) + 2
		for i := 1; i < len(row); i++ {
			if i > 1 {
				first = ""
			}
			t.HangingIndent(fmt.Sprintf("%-*s%-14s", indent, first, strings.ToLower(header[i])), row[i])
		}
	}
}

// FlushTo writes the text and clears it.
func (t *Text) FlushTo(w io.Writer) error {
	_, err := io.WriteString(w, t.out.String())
	t.out.Reset()
	return err
}
