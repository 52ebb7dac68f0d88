// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"strings"

	"github.com/regcred/regcred/internal/shown"
)

// Comment makes comments of lines, as YAML and shells have them.
func Comment(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("# " + inline(line) + "\n")
	}
	return b.String()
}

// Printable reports whether s can stand in a line of text as it is: it ends no
// line, and a terminal obeys nothing of it.
func Printable(s string) bool { return inline(s) == s }

// PrintableLines reports the same of lines, or of a document.
func PrintableLines(s string) bool { return printable(s) == s }

// printable and inline are short for what all that is printed goes through.
func printable(s string) string { return shown.Lines(s) }
func inline(s string) string    { return shown.Line(s) }
