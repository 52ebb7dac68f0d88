// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"time"

	"github.com/regcred/regcred/internal/runstats"
)

// Status is the result of "regcred status -o json".
type Status struct {
	Node              Node             `json:"node"`
	Current           int              `json:"current"`         // current generation; 0 if none exists
	Owner             string           `json:"owner,omitempty"` // Helm release as NAMESPACE/RELEASE; "" if no release owns the installation
	Generations       []Generation     `json:"generations"`
	LoadedGeneration  int              `json:"kubeletHas,omitempty"` // the generation whose entries the kubelet has loaded
	InterruptedChange string           `json:"brokenOff,omitempty"`  // describes an interrupted change
	Problems          []string         `json:"problems"`
	Restart           []string         `json:"restart"` // why the kubelet must be restarted
	Counts            *runstats.Counts `json:"counts,omitempty"`
}

// Node describes a node.
type Node struct {
	Kind              string `json:"kind"`
	Kubelet           string `json:"kubelet,omitempty"` // version of the kubelet
	PID               int    `json:"pid,omitempty"`
	Unit              string `json:"unit,omitempty"`
	Config            string `json:"config,omitempty"`
	BinDir            string `json:"binDir,omitempty"`
	UnsupportedReason string `json:"refusal,omitempty"` // why regcred cannot change this node
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
	case len(s.Problems) > 0 || s.InterruptedChange != "" || len(s.Restart) > 0:
		return ExitFailed
	case s.Current == 0:
		return ExitEmpty
	}
	return ExitOK
}

// ChangeOutcome describes how a change to a node ended.
type ChangeOutcome string

// The outcomes of a change. The last three mean that nothing was changed.
const (
	ChangeInstalled   ChangeOutcome = "installed"
	ChangeRolledBack  ChangeOutcome = "rolled back"
	ChangeRepaired    ChangeOutcome = "mended"
	ChangeUnchanged   ChangeOutcome = "unchanged"
	ChangePlanned     ChangeOutcome = "planned" // --dry-run
	ChangeUninstalled ChangeOutcome = "uninstalled"
	ChangeFailed      ChangeOutcome = "failed"
	ChangeRejected    ChangeOutcome = "refused" // regcred cannot change this node
	ChangeOwned       ChangeOutcome = "owned"   // the installation belongs to another owner
)

// Change is the JSON result (-o json) of "regcred install", "rollback" and "uninstall".
// Only install sets Previous, Restart, Warnings, Caches, Changes and Instead.
type Change struct {
	Outcome            ChangeOutcome `json:"outcome"`
	Generation         int           `json:"generation,omitempty"` // number of the current generation
	Previous           int           `json:"previous,omitempty"`
	Error              string        `json:"error,omitempty"`     // why the change failed, on one line
	Hint               string        `json:"hint,omitempty"`      // how to fix the failure, on one line
	Owner              string        `json:"owner,omitempty"`     // with ChangeOwned: the owning Helm release; "" if no release owns the installation
	Restart            []string      `json:"restart,omitzero"`    // why the kubelet must be restarted
	Restarted          bool          `json:"restarted,omitempty"` // the change failed after the kubelet was restarted
	Warnings           []string      `json:"warnings,omitzero"`
	Caches             []CacheLimit  `json:"caches,omitempty"` // providers whose responses are cached for a shorter time than configured
	Changes            []FileChange  `json:"changes,omitzero"`
	Left               []string      `json:"left,omitempty"`    // files and directories that an uninstall left in place
	ManualInstructions string        `json:"instead,omitempty"` // with ChangeRejected: instructions for the manual change
}

// CacheLimit describes how long the kubelet caches the responses of a provider, in seconds.
type CacheLimit struct {
	Provider   string  `json:"provider"`
	Configured float64 `json:"configuredSeconds"` // defaultCacheDuration
	Limit      float64 `json:"maxStaleSeconds"`
}

// FileChange describes the change to one file.
type FileChange struct {
	Name string `json:"name"`
	Diff string `json:"diff"`
}

// Failed reports whether the change failed or was rejected. Error has the reason.
func (c *Change) Failed() bool {
	switch c.Outcome {
	case "", ChangeFailed, ChangeRejected, ChangeOwned:
		return true
	}
	return false
}
