// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"fmt"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/shown"
)

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

// FormatMillis formats a short duration, in seconds.
func FormatMillis(seconds float64) string {
	if seconds < 0.0095 {
		return fmt.Sprintf("%.1f ms", seconds*1000)
	}
	return fmt.Sprintf("%.0f ms", seconds*1000)
}

// FormatElapsed formats a possibly long duration in seconds.
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

// FormatCount is [shown.Count].
func FormatCount(n int, noun string) string { return shown.Count(n, noun) }

// QuoteShellPath is [shown.QuoteShellPath].
func QuoteShellPath(path string) string { return shown.QuoteShellPath(path) }

// QuoteShellWord is [shown.QuoteShellWord].
func QuoteShellWord(s string) string { return shown.QuoteShellWord(s) }

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

// escapeLines and inline escape everything that is printed.
func escapeLines(s string) string { return shown.EscapeLines(s) }
func escapeLine(s string) string  { return shown.EscapeLine(s) }

// WriteJSON writes a result as [shown.EncodeResult] encodes it.
func (t *Terminal) WriteJSON(v any) error {
	doc, err := shown.EncodeResult(v)
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

// EncodeJSON is [shown.EncodeJSON].
func EncodeJSON(v any) ([]byte, error) { return shown.EncodeJSON(v) }
