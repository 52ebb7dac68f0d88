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

	Spent string `json:"spent,omitempty"` // the sum of an install that restarted the kubelet and went back: it is not tried again
	Why   string `json:"why,omitempty"`   // it went back
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
		return none, errors.New(filepath.Join(work, memoryName) + ": it is not what regcred writes there; it is begun anew")
	}
	return m, nil
}

func (m memory) keep(work string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return inroot.FS{}.Put(filepath.Join(work, memoryName), bytes.NewReader(data), inroot.Attr{Mode: 0o600})
}
