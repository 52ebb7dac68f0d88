// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/regularfile"
)

const (
	memoryName = "agent.json"
	statusName = "status.json"
	answerName = "answer.json" // of the change that was begun last

	maxOwnFile = 1 << 20 // bytes
)

// memory is what a restart of the container keeps.
type memory struct {
	SchemaVersion int `json:"schemaVersion"`

	Wanted    string    `json:"wanted,omitempty"` // the state
	Applies   int       `json:"applies"`
	Failures  int       `json:"failures"`
	Mended    int       `json:"mended"`
	LastApply time.Time `json:"lastApply,omitzero"`
	LastError *Error    `json:"lastError,omitempty"`

	Reached bool `json:"reached,omitempty"` // regcred has been run on the node: it has a systemd

	Begun string `json:"begun,omitempty"` // the goal of a change that was begun, and whose answer this pod has not seen
	Tries int    `json:"tries,omitempty"` // how often that was begun and came to no end

	Spent string `json:"spent,omitempty"` // the goal of a change that restarted the kubelet in vain: it is not tried again
	Why   string `json:"why,omitempty"`   // it was in vain
}

const memoryVersion = 1

// remember reads what was kept. What cannot be read is an error, and then nothing
// was: what was tried may be tried again.
func remember(ctx context.Context, work string) (m memory, err error) {
	none := memory{SchemaVersion: memoryVersion}
	data, err := regularfile.Read(ctx, filepath.Join(work, memoryName), maxOwnFile)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	if json.Unmarshal(data, &m) != nil || m.SchemaVersion != memoryVersion {
		return none, errors.New(filepath.Join(work, memoryName) + ": this file was not written by regcred; starting with a new file")
	}
	return m, nil
}

// forget has a change made that was begun, or made in vain, before.
func (m *memory) forget() { m.Begun, m.Tries, m.Spent, m.Why = "", 0, "", "" }

func (m memory) keep(work string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return inroot.FS{}.Put(filepath.Join(work, memoryName), bytes.NewReader(data), inroot.Attr{Mode: 0o600})
}
