// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/regcred/regcred/finding"
)

// Finding is one result of a check. Rule is the ID of the [Check]. Message describes the
// plugin's response, or why the check was skipped. A Finding contains no passwords, no tokens,
// and nothing from the plugin's standard output.
type Finding struct {
	finding.Finding
	Did     string // what the check did; empty if it was skipped
	Kubelet string // how the kubelet treats a plugin with this finding
}

type jsonFinding struct {
	Check    string           `json:"check"`
	Severity finding.Severity `json:"severity"`
	Did      string           `json:"did,omitempty"`
	Got      string           `json:"got"`
	Kubelet  string           `json:"kubelet,omitempty"`
	Fix      string           `json:"fix,omitempty"`
}

// MarshalJSON returns an object with check, severity, did, got, kubelet and fix.
func (f Finding) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonFinding{f.Rule, f.Severity, f.Did, f.Message, f.Kubelet, f.Fix})
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (f *Finding) UnmarshalJSON(data []byte) error {
	var j jsonFinding
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*f = Finding{finding.Finding{Rule: j.Check, Severity: j.Severity, Message: j.Got, Fix: j.Fix}, j.Did, j.Kubelet}
	return nil
}

// String returns the finding on several lines, for use in a test log.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Severity, f.Message)
	for _, part := range []struct{ label, text string }{
		{"did", f.Did}, {"effect", f.Kubelet}, {"fix", f.Fix},
	} {
		if part.text != "" {
			fmt.Fprintf(&b, "\n%8s: %s", part.label, part.text)
		}
	}
	return b.String()
}

// newFinding returns a finding. [check.runCheck] sets its rule later.
func newFinding(severity finding.Severity, did, got, kubelet, fix string) []Finding {
	return []Finding{{finding.Finding{Severity: severity, Message: got, Fix: fix}, did, kubelet}}
}

func passFinding(did, format string, args ...any) []Finding {
	return newFinding(finding.SeverityOK, did, fmt.Sprintf(format, args...), "", "")
}

func skipFinding(format string, args ...any) []Finding {
	return newFinding(finding.SeveritySkipped, "", fmt.Sprintf(format, args...), "", "")
}

// maxListedItems limits how many keys, files or runs are listed in a finding.
const maxListedItems = 3

// quoteList returns the first words, quoted, and the number of the remaining words.
func quoteList(words []string) string {
	var quoted []string
	for _, w := range words[:min(len(words), maxListedItems)] {
		quoted = append(quoted, fmt.Sprintf("%q", truncateText(w)))
	}
	text := strings.Join(quoted, ", ")
	if more := len(words) - maxListedItems; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// truncateText truncates text from the plugin.
func truncateText(s string) string {
	const most = 500
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
