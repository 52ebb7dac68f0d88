// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"time"

	"github.com/regcred/regcred/internal/tally"
)

// Status is the result of "regcred status -o json".
type Status struct {
	Node        Node          `json:"node"`
	Current     int           `json:"current"`         // current generation; 0 if none exists
	Owner       string        `json:"owner,omitempty"` // Helm release as NAMESPACE/RELEASE; "" for a person
	Generations []Generation  `json:"generations"`
	KubeletHas  int           `json:"kubeletHas,omitempty"` // the generation whose entries the kubelet has loaded
	BrokenOff   string        `json:"brokenOff,omitempty"`  // an interrupted change
	Problems    []string      `json:"problems"`
	Restart     []string      `json:"restart"` // why the kubelet must be restarted
	Counts      *tally.Counts `json:"counts,omitempty"`
}

// Node describes a node.
type Node struct {
	Kind    string `json:"kind"`
	Kubelet string `json:"kubelet,omitempty"` // its version
	PID     int    `json:"pid,omitempty"`
	Unit    string `json:"unit,omitempty"`
	Config  string `json:"config,omitempty"`
	BinDir  string `json:"binDir,omitempty"`
	Refusal string `json:"refusal,omitempty"` // why the node's system undoes changes
}

// Generation describes one generation in a [Status].
type Generation struct {
	Number    int       `json:"number"`
	Current   bool      `json:"current"`
	Created   time.Time `json:"created,omitzero"`
	Source    string    `json:"source,omitempty"`
	Providers []string  `json:"providers"`
	Error     string    `json:"error,omitempty"`
}

// ExitCode returns the exit code of "regcred status".
func (s *Status) ExitCode() int {
	switch {
	case len(s.Problems) > 0 || s.BrokenOff != "" || len(s.Restart) > 0:
		return ExitFailed
	case s.Current == 0:
		return ExitEmpty
	}
	return ExitOK
}
