// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/shown"
)

// maxOutputSize limits the output of regcred on the node, in bytes.
const maxOutputSize = 16 << 20

// changeResponse is the output of "regcred install" or "uninstall".
type changeResponse struct {
	report.Change
	report.Failure
}

// reason returns why the change failed.
func (r *changeResponse) reason() string {
	if r.Error != "" {
		return joinReasons([]report.ErrorHint{{Message: r.Error, Hint: r.Hint}})
	}
	return joinReasons(r.Errors)
}

// statusResponse is the output of "regcred status".
type statusResponse struct {
	report.Status
	Current *int `json:"current"` // nil if absent; shadows the field of Status
	report.Failure
}

// decodeOutput decodes the output of a command that may exit with one of the given
// codes. Errors do not quote the output.
func decodeOutput(command string, stdout []byte, code int, codes []int, answer any) error {
	var version struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	ended := fmt.Sprintf("regcred %s exited with code %d on the node", command, code)
	switch {
	case len(stdout) == 0:
		return fmt.Errorf("%s and printed no result; see this pod's log", ended)
	case len(stdout) > maxOutputSize:
		return fmt.Errorf("%s, but its result is longer than %d bytes", ended, maxOutputSize)
	case json.Unmarshal(stdout, &version) != nil || json.Unmarshal(stdout, answer) != nil:
		return fmt.Errorf("%s, but its result is not valid JSON", ended)
	case version.SchemaVersion != shown.SchemaVersion:
		return fmt.Errorf("%s, but its result has schemaVersion %d, not %d: the node and this pod have different versions of regcred", ended, version.SchemaVersion, shown.SchemaVersion)
	case !slices.Contains(codes, code):
		return errors.New(ended)
	}
	return nil
}

// decodeChange decodes the result of a change. It must have exit code 0 and one of the
// good outcomes, or exit code 1 and a reason.
func decodeChange(command string, stdout []byte, code int, good ...report.ChangeOutcome) (*changeResponse, error) {
	a := &changeResponse{}
	if err := decodeOutput(command, stdout, code, []int{report.ExitOK, report.ExitFailed}, a); err != nil {
		return nil, err
	}
	bad := a.Failed()
	if bad != (code == report.ExitFailed) || bad != (a.reason() != "") || !bad && !slices.Contains(good, a.Outcome) {
		return nil, fmt.Errorf("regcred %s exited with code %d on the node, which is inconsistent with the outcome it reported (%q)", command, code, shortenText(string(a.Outcome), 40))
	}
	return a, nil
}

// decodeSavedChange decodes the result of a change that an earlier container started; or
// nil. Its exit code is unknown and derived from the result.
func decodeSavedChange(command string, stdout []byte, good ...report.ChangeOutcome) *changeResponse {
	var a changeResponse
	if json.Unmarshal(stdout, &a) != nil {
		return nil
	}
	code := report.ExitOK
	if a.Failed() {
		code = report.ExitFailed
	}
	left, err := decodeChange(command, stdout, code, good...)
	if err != nil {
		return nil
	}
	return left
}

// decodeStatus decodes the output of "regcred status".
func decodeStatus(stdout []byte, code int) (*statusResponse, error) {
	a := &statusResponse{}
	if err := decodeOutput("status", stdout, code, []int{report.ExitOK, report.ExitFailed, report.ExitEmpty}, a); err != nil {
		return nil, err
	}
	if len(a.Errors) > 0 {
		return nil, errors.New(joinReasons(a.Errors))
	}
	if a.Counts != nil && !a.Counts.IsValid() {
		a.Counts = nil
	}
	if a.Current != nil {
		a.Status.Current = *a.Current
	}
	if a.Current == nil || a.Problems == nil || a.Restart == nil || a.ExitCode() != code {
		return nil, fmt.Errorf("regcred status exited with code %d on the node, which is inconsistent with the result it returned", code)
	}
	return a, nil
}

// differences lists what differs from the installed state.
func (a *statusResponse) differences() (list []string) {
	if a.BrokenOff != "" {
		list = append(list, "broken off: "+a.BrokenOff)
	}
	list = append(list, a.Problems...)
	for _, why := range a.Restart {
		list = append(list, "the kubelet must be restarted: "+why)
	}
	if *a.Current == 0 && len(list) == 0 {
		list = []string{"regcred is no longer on the node: it was removed manually"}
	}
	return list
}

// joinReasons joins errors and their hints.
func joinReasons(list []report.ErrorHint) string {
	var texts []string
	for _, p := range list {
		text := p.Message
		if p.Hint != "" {
			text += " (" + chartHint(p.Hint) + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// chartHint replaces a flag at the start of a hint with the corresponding chart value.
// Commands in a hint are kept.
func chartHint(hint string) string {
	for flag, value := range map[string]string{
		"--restart":   "the chart's value restart: IfNeeded",
		"--reapplied": "the chart's value reapplied: true",
		"--state-dir": "the chart's value stateDir",
	} {
		if rest, ok := strings.CutPrefix(hint, flag); ok && (rest == "" || rest[0] == ' ' || rest[0] == ',') {
			return value + rest
		}
	}
	return hint
}
