// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"strings"
)

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

// found is a finding that is no pass. Check is filled in by [suite.run].
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
