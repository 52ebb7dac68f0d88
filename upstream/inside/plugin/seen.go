// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"slices"
	"time"

	"github.com/regcred/regcred/config"
)

// fileState detects that a file was replaced or written, or that a directory's entries
// changed. Symbolic links are followed.
type fileState struct {
	device, inode     uint64
	size              int64
	modified, changed time.Time // changed cannot be set back
}

// seen is the state of the configuration's files just before they were read. The zero
// value matches no state.
type seen struct {
	names  []string // includes the directory, if it is one
	states []fileState
	at     time.Time // zero if it must not be trusted
}

const (
	// settled is how long a file must be unchanged before its state is trusted. A write
	// within the same tick of the file system's clock does not change the state.
	settled = 2 * time.Second
	// trust limits how long an unchanged state is trusted. It covers writes through a
	// memory map and file systems with cached attributes.
	trust = 10 * time.Second
)

// look returns the files' state now. The state is not trusted if a file's state is
// incomplete.
func (s *seen) look(now time.Time) seen {
	newer := seen{names: s.names, at: now}
	for _, name := range s.names {
		state, ok := stateOf(name)
		if !ok {
			return seen{names: s.names}
		}
		newer.states = append(newer.states, state)
	}
	return newer
}

// same reports whether the files are unchanged, so that they need not be read.
func (s *seen) same(newer *seen) bool {
	return !s.at.IsZero() && newer.at.Sub(s.at) < trust && slices.Equal(s.states, newer.states)
}

// atRest reports whether a later write would change the state.
func (s *seen) atRest() bool {
	limit := s.at.Add(-settled)
	return !slices.ContainsFunc(s.states, func(f fileState) bool {
		return !f.modified.Before(limit) || !f.changed.Before(limit)
	})
}

// filesOf returns the names of the files that a configuration was read from.
func filesOf(c *config.Config) (names []string) {
	if path, dir := c.Path(); dir {
		names = append(names, path)
	}
	for _, f := range c.Files() {
		names = append(names, f.Name)
	}
	return names
}
