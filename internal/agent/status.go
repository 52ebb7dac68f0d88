// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"time"
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
