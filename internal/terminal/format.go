// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"fmt"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/shown"
)

// Span formats a duration without trailing zero units: 10m, not 10m0s.
func Span(d time.Duration) string {
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

// Millis formats a short duration, in seconds.
func Millis(seconds float64) string {
	if seconds < 0.0095 {
		return fmt.Sprintf("%.1f ms", seconds*1000)
	}
	return fmt.Sprintf("%.0f ms", seconds*1000)
}

// Took formats a possibly long duration in seconds.
func Took(seconds float64) string {
	if seconds < 1 {
		return Millis(seconds)
	}
	return fmt.Sprintf("%.1f s", seconds)
}

// Bytes formats a number of bytes with a unit.
func Bytes(n int64) string {
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

// Count is [shown.Count].
func Count(n int, noun string) string { return shown.Count(n, noun) }

// ShellPath is [shown.ShellPath].
func ShellPath(path string) string { return shown.ShellPath(path) }

// ShellWord is [shown.ShellWord].
func ShellWord(s string) string { return shown.ShellWord(s) }

// Comment formats lines as YAML or shell comments.
func Comment(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("# " + inline(line) + "\n")
	}
	return b.String()
}

// Printable reports whether s is one line without control characters.
func Printable(s string) bool { return inline(s) == s }

// PrintableLines reports whether s contains no control characters other than line
// endings.
func PrintableLines(s string) bool { return printable(s) == s }

// printable and inline escape everything that is printed.
func printable(s string) string { return shown.Lines(s) }
func inline(s string) string    { return shown.Line(s) }

// WriteJSON writes a result as [shown.Result] encodes it.
func (t *Terminal) WriteJSON(v any) error {
	doc, err := shown.Result(v)
	if err != nil {
		return err
	}
	return t.WriteRaw(doc)
}

// WriteForeignJSON writes a document with a third-party schema, such as SARIF.
func (t *Terminal) WriteForeignJSON(v any) error {
	doc, err := JSON(v)
	if err != nil {
		return err
	}
	return t.WriteRaw(doc)
}

// JSON is [shown.JSON].
func JSON(v any) ([]byte, error) { return shown.JSON(v) }
