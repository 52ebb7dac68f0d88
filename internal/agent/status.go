// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/regcred/regcred/internal/textfmt"
)

// Phase is a node's state as a single word.
type Phase string

const (
	PhaseStarting    Phase = "starting"    // nothing has been done yet
	PhaseApplying    Phase = "applying"    // an install or uninstall is running
	PhaseInstalled   Phase = "installed"   // the node is in the state that the chart specifies
	PhasePlanned     Phase = "planned"     // mode DryRun; Reason contains the plan
	PhaseDrifted     Phase = "drifted"     // the node differs from the installed state and could not be repaired
	PhaseFailed      Phase = "failed"      // the install failed; the node is unchanged
	PhaseUnsupported Phase = "unsupported" // the node's system reverts changes, or it has no systemd
	PhaseRemoved     Phase = "removed"     // state absent: nothing of regcred is left on the node
	PhaseNotRemoved  Phase = "not-removed" // state absent: the uninstall failed
)

// IsDone reports whether a node in this phase needs no further change. Then its pod is ready.
func (p Phase) IsDone() bool {
	return p == PhaseInstalled || p == PhasePlanned || p == PhaseUnsupported || p == PhaseRemoved
}

// statusVersion is the schema version of a Status.
const statusVersion = 1

// Status is a node's state. A pod prints it as one line of JSON, regularly and whenever it
// changes. The last line of the pod's log is always a status, so readers only need permission
// to read logs.
type Status struct {
	SchemaVersion int       `json:"schemaVersion"` // 1
	Time          time.Time `json:"time"`          // when this status was written
	Node          string    `json:"node"`
	Owner         string    `json:"owner"`    // NAMESPACE/RELEASE of the chart
	Revision      string    `json:"revision"` // name of the ConfigMap with the configuration
	Phase         Phase     `json:"phase"`
	Reason        string    `json:"reason,omitempty"` // why the node is in this phase, on one line

	Kind       string   `json:"kind,omitempty"`       // kind of node, as in "regcred status"
	Kubelet    string   `json:"kubelet,omitempty"`    // version of the kubelet
	Generation int      `json:"generation,omitempty"` // current generation; 0 if none exists
	KubeletHas int      `json:"kubeletHas,omitempty"` // generation whose entries the kubelet has loaded
	Drift      []string `json:"drift,omitempty"`      // remaining differences from the installed state

	Applies   int       `json:"applies"`            // installs that changed the node since the pod was created
	Failures  int       `json:"failures"`           // installs and uninstalls that failed
	Repairs   int       `json:"mended"`             // repairs
	LastApply time.Time `json:"lastApply,omitzero"` // last successful change
	LastError *Error    `json:"lastError,omitempty"`
}

// Error describes the last failure.
type Error struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"` // one line, without secrets
}

// These constants limit a status line, in bytes or items. Container runtimes split lines
// above 16 KiB (containerd) or 8 KiB (CRI-O), and the kubelet returns only the last part.
const (
	maxStatusLine      = 8 << 10
	maxReasonLength    = 1 << 10
	maxOwnerLength     = 320 // NAMESPACE/RELEASE
	maxDriftEntries    = 10
	maxDriftTextLength = 256
)

// encodeLine returns the status as one line of JSON. Long messages are truncated.
func (s Status) encodeLine() []byte {
	s.shortenTexts()
	for {
		data := compactJSON(s)
		switch {
		case len(data) <= maxStatusLine:
			return data
		case len(s.Drift) > 0:
			s.Drift = s.Drift[:len(s.Drift)-1]
		case s.LastError != nil && s.LastError.Message != "":
			s.LastError = &Error{Time: s.LastError.Time}
		default:
			s.Reason = ""
		}
	}
}

// shortenTexts shortens each text and replaces its line breaks.
func (s *Status) shortenTexts() {
	for _, text := range []*string{&s.Node, &s.Owner, &s.Revision, &s.Kind, &s.Kubelet} {
		*text = shortenText(*text, maxOwnerLength)
	}
	s.Reason = shortenText(s.Reason, maxReasonLength)
	if s.LastError != nil {
		s.LastError = &Error{s.LastError.Time, shortenText(s.LastError.Message, maxReasonLength)}
	}
	s.Drift = slices.Clone(truncateList(s.Drift))
	for i, text := range s.Drift {
		s.Drift[i] = shortenText(text, maxDriftTextLength)
	}
}

// truncateList returns the first texts of a list. If some are omitted, the last text is their
// number.
func truncateList(list []string) []string {
	if len(list) <= maxDriftEntries {
		return list
	}
	return append(append([]string{}, list[:maxDriftEntries-1]...), fmt.Sprintf("and %d more", len(list)-maxDriftEntries+1))
}

// compactJSON returns JSON without indentation.
func compactJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // cannot happen for the types of this package
		panic(err)
	}
	return b.Bytes()
}

// shortenText returns a text as a single printable line of at most max bytes.
func shortenText(text string, max int) string {
	if text = textfmt.EscapeLine(text); len(text) <= max {
		return text
	}
	text = text[:max-len("…")]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return strings.TrimRight(text, " ") + "…"
}
