// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

// Severity says what a [Finding] means for the images concerned.
type Severity string

const (
	// SeverityError: accepted by the kubelet, but it can never work.
	SeverityError Severity = "error"
	// SeverityWarning: it works, but not as it reads, or dangerously.
	SeverityWarning Severity = "warning"
	// SeverityInfo: worth knowing.
	SeverityInfo Severity = "info"
)

// Finding is one thing that a configuration should not have although the
// kubelet accepts it.
type Finding struct {
	Rule       string   `json:"rule"` // stable name; docs/configuration.md explains each
	Severity   Severity `json:"severity"`
	File       string   `json:"file,omitempty"`
	Line       int      `json:"line,omitempty"`
	Column     int      `json:"column,omitempty"`
	Path       string   `json:"path,omitempty"` // e.g. providers[0].matchImages[1]
	Message    string   `json:"message"`
	Suggestion string   `json:"suggestion,omitempty"` // the value to write instead, or what to do
}

// Lint returns what the kubelet accepts but cannot work, or is dangerous, in
// the configuration alone. Findings are in the order of the files.
func (c *Config) Lint() []Finding { return nil }

// LintBinDir returns what is wrong with the executables of c's providers in
// binDir, on this machine: missing, not executable, for another architecture,
// dynamically linked against a missing loader, writable by others.
func (c *Config) LintBinDir(binDir string) []Finding { return nil }
