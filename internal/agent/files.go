// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/regularfile"
)

const (
	savedStateFileName = "agent.json"
	statusFileName     = "status.json"
	resultFileName     = "answer.json" // the result of the last change

	maxStateFileSize = 1 << 20 // bytes
)

// statusFile is the status as stored in the file for the readiness probe.
type statusFile struct {
	Status
	NextDue time.Time `json:"until"` // when the next status is due
}

// IsReady reports whether the pod with the given work directory is ready. It also
// returns the node's state, in one line of at most 1 KiB.
func IsReady(ctx context.Context, work string, now time.Time) (ready bool, line string) {
	data, err := regularfile.Read(ctx, filepath.Join(work, statusFileName), maxStateFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return false, "starting: nothing has been changed yet"
	}
	var f statusFile
	if err == nil && (json.Unmarshal(data, &f) != nil || f.SchemaVersion != statusVersion || f.Phase == "") {
		err = fmt.Errorf("%s: the file was not written by regcred agent run", filepath.Join(work, statusFileName))
	}
	if err != nil {
		return false, shortenText(err.Error(), maxReasonLength)
	}
	text := fmt.Sprintf("node %s: %s", f.Node, f.Phase)
	late := now.Sub(f.NextDue)
	switch {
	case late > 0:
		text += fmt.Sprintf(", as of %s: the next check by regcred agent run was due by %s", f.Time.Format(time.RFC3339), f.NextDue.Format(time.RFC3339))
	case f.Reason != "":
		text += ": " + f.Reason
	}
	return f.Phase.IsDone() && late <= 0, shortenText(text, maxReasonLength)
}

// savedState is the state that survives container restarts.
type savedState struct {
	SchemaVersion int `json:"schemaVersion"`

	DesiredState string    `json:"wanted,omitempty"` // the desired state
	Applies      int       `json:"applies"`
	Failures     int       `json:"failures"`
	Repairs      int       `json:"mended"`
	LastApply    time.Time `json:"lastApply,omitzero"`
	LastError    *Error    `json:"lastError,omitempty"`

	HasRunOnNode bool `json:"reached,omitempty"` // regcred has run on the node, so the node has systemd

	StartedGoal string `json:"begun,omitempty"` // goal of a change whose result is not yet known
	Tries       int    `json:"tries,omitempty"` // number of times that change was started

	FailedGoal   string `json:"spent,omitempty"` // goal of a change that failed after it restarted the kubelet, so it is not retried
	FailedReason string `json:"why,omitempty"`   // why that change failed
}

const savedStateVersion = 1

// loadSavedState reads the saved state. If it returns an error, the state is empty, so that
// changes may be retried.
func loadSavedState(ctx context.Context, work string) (m savedState, err error) {
	none := savedState{SchemaVersion: savedStateVersion}
	data, err := regularfile.Read(ctx, filepath.Join(work, savedStateFileName), maxStateFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	if json.Unmarshal(data, &m) != nil || m.SchemaVersion != savedStateVersion {
		return none, errors.New(filepath.Join(work, savedStateFileName) + ": this file was not written by regcred; starting with a new file")
	}
	return m, nil
}

// resetFailures forgets unfinished and failed changes, so that all changes are allowed again.
func (m *savedState) resetFailures() { m.StartedGoal, m.Tries, m.FailedGoal, m.FailedReason = "", 0, "", "" }

// writeStateFile writes v as JSON to one of the agent's own files.
func writeStateFile(name string, v any) error {
	return inroot.FS{}.WriteFile(name, bytes.NewReader(compactJSON(v)), inroot.FileAttr{Mode: 0o600})
}
