// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/shown"
	"github.com/regcred/regcred/internal/tally"
)

// maxAnswer bounds what regcred on the node may print, in bytes.
const maxAnswer = 16 << 20

// changeAnswer is what "regcred install" or "uninstall" prints.
type changeAnswer struct {
	Outcome    string   `json:"outcome"`
	Generation int      `json:"generation"` // that is current now; 0 if that is not said
	Restart    []string `json:"restart"`    // why the kubelet had to be restarted, which it was if the outcome is good
	Restarted  bool     `json:"restarted"`  // although it came to nothing
	Changes    []struct {
		Name string `json:"name"`
	} `json:"changes"`
	Instead string    `json:"instead"`
	Error   string    `json:"error"`  // of an outcome that is bad
	Hint    string    `json:"hint"`   // what to do about it
	Owner   string    `json:"owner"`  // of what is there, if the outcome is "owned"
	Errors  []problem `json:"errors"` // of what came to no outcome
}

// reason is why it came to nothing.
func (a *changeAnswer) reason() string {
	if a.Error != "" {
		return reasons([]problem{{a.Error, a.Hint}})
	}
	return reasons(a.Errors)
}

// bad reports whether nothing was changed.
func (a *changeAnswer) bad() bool {
	return slices.Contains([]string{"", "failed", "refused", "owned"}, a.Outcome)
}

// problem is why a command came to nothing.
type problem struct {
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// lookAnswer is what "regcred status" prints.
type lookAnswer struct {
	Node struct {
		Kind    string `json:"kind"`
		Kubelet string `json:"kubelet"`
	} `json:"node"`
	Current    *int          `json:"current"`
	Owner      string        `json:"owner"` // of that; "" is a person
	KubeletHas int           `json:"kubeletHas"`
	BrokenOff  string        `json:"brokenOff"`
	Problems   *[]string     `json:"problems"`
	Restart    *[]string     `json:"restart"`
	Counts     *tally.Counts `json:"counts"`
	Errors     []problem     `json:"errors"`
}

// Exit codes of regcred.
const (
	codeOK    = 0
	codeNo    = 1
	codeEmpty = 3
)

// decode reads what a command printed that ended with one of the codes. What is none
// of its answers is not shown: it may be anything.
func decode(command string, stdout []byte, code int, codes []int, answer any) error {
	var version struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	ended := fmt.Sprintf("regcred %s exited with code %d on the node", command, code)
	switch {
	case len(stdout) == 0:
		return fmt.Errorf("%s but returned no result; see this pod's log", ended)
	case len(stdout) > maxAnswer:
		return fmt.Errorf("%s, but its result is longer than %d bytes", ended, maxAnswer)
	case json.Unmarshal(stdout, &version) != nil || json.Unmarshal(stdout, answer) != nil:
		return fmt.Errorf("%s, but its result is not valid JSON", ended)
	case version.SchemaVersion != shown.SchemaVersion:
		return fmt.Errorf("%s, but its result has schemaVersion %d, not %d: the node and this pod have different versions of regcred", ended, version.SchemaVersion, shown.SchemaVersion)
	case !slices.Contains(codes, code):
		return errors.New(ended)
	}
	return nil
}

// decodeChange reads the answer of a change, which ends with code 0 and one of the good
// outcomes, or with 1 and a reason.
func decodeChange(command string, stdout []byte, code int, good ...string) (*changeAnswer, error) {
	a := &changeAnswer{}
	if err := decode(command, stdout, code, []int{codeOK, codeNo}, a); err != nil {
		return nil, err
	}
	bad := a.bad()
	if bad != (code == codeNo) || bad != (a.reason() != "") || !bad && !slices.Contains(good, a.Outcome) {
		return nil, fmt.Errorf("regcred %s exited with code %d on the node, which is inconsistent with the outcome it reported (%q)", command, code, short(a.Outcome, 40))
	}
	return a, nil
}

// decodeLeft reads the answer of a change that nobody has waited for; nil if it gave
// none. How it ended is not known, but goes with its answer.
func decodeLeft(command string, stdout []byte, good ...string) *changeAnswer {
	var a changeAnswer
	if json.Unmarshal(stdout, &a) != nil {
		return nil
	}
	code := codeOK
	if a.bad() {
		code = codeNo
	}
	left, err := decodeChange(command, stdout, code, good...)
	if err != nil {
		return nil
	}
	return left
}

// decodeLook reads the answer of a look. It ends with code 0 if all is as installed,
// 1 if not, or with an error, and 3 if nothing is installed.
func decodeLook(stdout []byte, code int) (*lookAnswer, error) {
	a := &lookAnswer{}
	if err := decode("status", stdout, code, []int{codeOK, codeNo, codeEmpty}, a); err != nil {
		return nil, err
	}
	if len(a.Errors) > 0 {
		return nil, errors.New(reasons(a.Errors))
	}
	if a.Counts != nil && !a.Counts.Sound() {
		a.Counts = nil
	}
	if a.Current == nil || a.Problems == nil || a.Restart == nil || a.want() != code {
		return nil, fmt.Errorf("regcred status exited with code %d on the node, which is inconsistent with the result it returned", code)
	}
	return a, nil
}

// want is the code that goes with an answer.
func (a *lookAnswer) want() int {
	switch {
	case len(*a.Problems) > 0 || a.BrokenOff != "" || len(*a.Restart) > 0:
		return codeNo
	case *a.Current == 0:
		return codeEmpty
	}
	return codeOK
}

// differences are what is not as it was installed.
func (a *lookAnswer) differences() (list []string) {
	if a.BrokenOff != "" {
		list = append(list, "broken off: "+a.BrokenOff)
	}
	list = append(list, *a.Problems...)
	for _, why := range *a.Restart {
		list = append(list, "the kubelet must be restarted: "+why)
	}
	if *a.Current == 0 && len(list) == 0 {
		list = []string{"regcred is no longer on the node: it was removed manually"}
	}
	return list
}

// reasons makes one text of problems.
func reasons(list []problem) string {
	var texts []string
	for _, p := range list {
		text := p.Message
		if p.Hint != "" {
			text += " (" + forChart(p.Hint) + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}
