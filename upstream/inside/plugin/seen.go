// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"slices"
	"time"

	"github.com/regcred/regcred/config"
)

// fileState is what tells whether a file, to which its name leads through all
// links, is another one or was written. A directory is, when an entry comes or goes.
type fileState struct {
	device, inode     uint64
	size              int64
	modified, changed time.Time // changed is what nobody can set back
}

// seen are the files of the configuration in use, as they were before they were
// read. The zero value trusts nothing.
type seen struct {
	names  []string // of the directory too, if it is one
	states []fileState
	at     time.Time // zero: not to be trusted
}

const (
	// settled is how long a file must have been at rest when it was looked at.
	// One that was written after that, within the same tick of the file
	// system's clock, looks no different.
	settled = 2 * time.Second
	// trust is how long files are not read again, whatever is seen of them: a write
	// through a memory map, or a file system that keeps what it knew.
	trust = 10 * time.Second
)

// look is what is seen of files now: nothing to be trusted if one of them tells too little.
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

// same reports whether the files are as they were, so that nobody has to read them.
func (s *seen) same(newer *seen) bool {
	return !s.at.IsZero() && newer.at.Sub(s.at) < trust && slices.Equal(s.states, newer.states)
}

// atRest reports whether a later write would be seen.
func (s *seen) atRest() bool {
	limit := s.at.Add(-settled)
	return !slices.ContainsFunc(s.states, func(f fileState) bool {
		return !f.modified.Before(limit) || !f.changed.Before(limit)
	})
}

// filesOf are the names of what a configuration was read from.
func filesOf(c *config.Config) (names []string) {
	if path, dir := c.Path(); dir {
		names = append(names, path)
	}
	for _, f := range c.Files() {
		names = append(names, f.Name)
	}
	return names
}
