// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"strings"

	"github.com/regcred/regcred/internal/shown"
)

// Comment returns lines as YAML or shell comments.
func Comment(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("# " + inline(line) + "\n")
	}
	return b.String()
}

// Printable reports whether s is one line without control characters.
func Printable(s string) bool { return inline(s) == s }

// PrintableLines reports whether s has no control characters except line ends.
func PrintableLines(s string) bool { return printable(s) == s }

// printable and inline are short for what all that is printed goes through.
func printable(s string) string { return shown.Lines(s) }
func inline(s string) string    { return shown.Line(s) }
