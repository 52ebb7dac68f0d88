// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

// Target is a kubelet that a configuration is meant for.
// The zero value is the newest known one, 1.36, with default feature gates.
type Target struct {
	KubeletVersion string          // "1.33" or "v1.33.4"; "" means the newest known
	FeatureGates   map[string]bool // gates set away from their default
}

// Validate returns what the newest known kubelet would reject: every problem
// at once, as [*FieldError] joined with [errors.Join]; nil if it would start.
// It does not look at executables: see [Config.LintBinDir].
func (c *Config) Validate() error { return c.ValidateFor(Target{}) }

// ValidateFor is Validate for a certain kubelet.
func (c *Config) ValidateFor(t Target) error { return errTODO }
