// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"strings"
)

// Severity says what a [Finding] means for a plugin. The values are stable:
// they appear in `-o json`.
type Severity string

// The severities, in rising order.
const (
	Pass    Severity = "ok"      // it is as it should be
	Skip    Severity = "skipped" // it could not be checked; Got says why
	Info    Severity = "info"    // worth knowing
	Warning Severity = "warning" // it works, but not always, or dangerously
	Error   Severity = "error"   // a kubelet gets no credential, a wrong one, or leaks one
)

// Finding is what one check found. It never holds a password, a token, or
// what the plugin wrote to standard output.
type Finding struct {
	Check    string   `json:"check"` // the id of a [Check]
	Severity Severity `json:"severity"`
	Did      string   `json:"did,omitempty"`     // what was done; empty if the check was skipped
	Got      string   `json:"got"`               // what came back, or why the check was skipped
	Kubelet  string   `json:"kubelet,omitempty"` // what a kubelet makes of it
	Fix      string   `json:"fix,omitempty"`     // how to mend it
}

// String is the finding on several lines, for a test's log.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Severity, f.Got)
	for _, part := range []struct{ label, text string }{
		{"did", f.Did}, {"kubelet", f.Kubelet}, {"fix", f.Fix},
	} {
		if part.text != "" {
			fmt.Fprintf(&b, "\n%8s: %s", part.label, part.text)
		}
	}
	return b.String()
}

// found is a finding that is no pass. Check is filled in by [check.examine].
func found(severity Severity, did, got, kubelet, fix string) []Finding {
	return []Finding{{Severity: severity, Did: did, Got: got, Kubelet: kubelet, Fix: fix}}
}

func pass(did, format string, args ...any) []Finding {
	return []Finding{{Severity: Pass, Did: did, Got: fmt.Sprintf(format, args...)}}
}

func skip(format string, args ...any) []Finding {
	return []Finding{{Severity: Skip, Got: fmt.Sprintf(format, args...)}}
}

// maxListed bounds how many keys, files or runs a finding names.
const maxListed = 3

// listed is at most maxListed of the words, quoted.
func listed(words []string) string {
	var quoted []string
	for _, w := range words[:min(len(words), maxListed)] {
		quoted = append(quoted, fmt.Sprintf("%q", shorten(w)))
	}
	text := strings.Join(quoted, ", ")
	if more := len(words) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// shorten keeps a text of the plugin's short enough for a table.
func shorten(s string) string {
	const most = 500
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
