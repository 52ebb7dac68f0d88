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
	memoryName = "agent.json"
	statusName = "status.json"
	answerName = "answer.json" // of the change that was begun last

	maxOwnFile = 1 << 20 // bytes
)

// Phase says in a word how a node stands.
type Phase string

const (
	Starting    Phase = "starting"    // nothing has been done yet
	Applying    Phase = "applying"    // an install or uninstall is under way
	Installed   Phase = "installed"   // the node has what the chart says
	Planned     Phase = "planned"     // mode DryRun: what would be done is known, and nothing is done
	Drifted     Phase = "drifted"     // the node differs from what was installed, and that could not be mended
	Failed      Phase = "failed"      // the install did not work; the node is as it was before
	Unsupported Phase = "unsupported" // the node does not keep changes; it is left alone
	Removed     Phase = "removed"     // state absent: nothing of regcred is on the node
	NotRemoved  Phase = "not-removed" // state absent: the uninstall did not work
)

// Done reports whether a pod in this phase has nothing left to do, and so is ready.
func (p Phase) Done() bool {
	return p == Installed || p == Planned || p == Unsupported || p == Removed
}

// Status is how a node stands, as its pod knows it. A pod prints it as one line of
// JSON whenever it changes, and now and then besides, so that the last line of its log
// says it without a right to anything but logs.
type Status struct {
	SchemaVersion int       `json:"schemaVersion"` // 1
	Time          time.Time `json:"time"`          // when this was written
	Node          string    `json:"node"`
	Owner         string    `json:"owner"`    // NAMESPACE/RELEASE of the chart
	Revision      string    `json:"revision"` // of what the chart says: the name of its ConfigMap
	Phase         Phase     `json:"phase"`
	Reason        string    `json:"reason,omitempty"` // one line: why it is in that phase

	Kind       string   `json:"kind,omitempty"`       // of node, as "regcred status" says it
	Kubelet    string   `json:"kubelet,omitempty"`    // its version
	Generation int      `json:"generation,omitempty"` // that is current; 0 if none
	KubeletHas int      `json:"kubeletHas,omitempty"` // whose entries the kubelet has in memory
	Drift      []string `json:"drift,omitempty"`      // what was found to differ, and is not mended

	Applies   int       `json:"applies"`            // installs that changed the node, since the pod was made
	Failures  int       `json:"failures"`           // that did not work
	Mended    int       `json:"mended"`             // times that drift was mended
	LastApply time.Time `json:"lastApply,omitzero"` // that worked
	LastError *Error    `json:"lastError,omitempty"`
}

// Error is the last failure.
type Error struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"` // one line, without secrets
}

// filed is what stands in the file for the probe.
type filed struct {
	Status
	Until time.Time `json:"until"` // when the pod will have written it anew
}

func (f filed) put(work string) error { return putOwn(filepath.Join(work, statusName), f) }

// Ready says whether the pod that works in a directory is ready, and how its node
// stands, in one line of at most 1 KiB.
func Ready(ctx context.Context, work string, now time.Time) (ready bool, line string) {
	data, err := regularfile.Read(ctx, filepath.Join(work, statusName), maxOwnFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, "starting: nothing has been changed yet"
	}
	var f filed
	if err == nil && (json.Unmarshal(data, &f) != nil || f.SchemaVersion != statusVersion || f.Phase == "") {
		err = fmt.Errorf("%s: the file was not written by regcred agent run", filepath.Join(work, statusName))
	}
	if err != nil {
		return false, short(err.Error(), maxReason)
	}
	text := fmt.Sprintf("node %s: %s", f.Node, f.Phase)
	late := now.Sub(f.Until)
	switch {
	case late > 0:
		text += fmt.Sprintf(", as of %s: the next check by regcred agent run was due by %s", f.Time.Format(time.RFC3339), f.Until.Format(time.RFC3339))
	case f.Reason != "":
		text += ": " + f.Reason
	}
	return f.Phase.Done() && late <= 0, short(text, maxReason)
}

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

func (m memory) keep(work string) error { return putOwn(filepath.Join(work, memoryName), m) }

// putOwn replaces one of the agent's own files.
func putOwn(name string, v any) error {
	return inroot.FS{}.Put(name, bytes.NewReader(compact(v)), inroot.Attr{Mode: 0o600})
}
