// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"slices"
	"time"

	"github.com/regcred/regcred/config"
)

// fileState identifies the content of a file or the entries of a directory. It changes if the file
// is replaced or written, or if the entries change. Symbolic links are followed.
type fileState struct {
	device, inode     uint64
	size              int64
	modified, changed time.Time // changed is the ctime, which users cannot set
}

// configState is the state of the configuration files just before they were read. The zero value
// does not equal any state.
type configState struct {
	names     []string // if the configuration is a directory, names includes it
	states    []fileState
	checkedAt time.Time // zero if the state must not be trusted
}

const (
	// minUnchangedTime is how long a file must be unchanged before its state is trusted. A second
	// write within the same tick of the file system's clock does not change the state.
	minUnchangedTime = 2 * time.Second
	// maxTrustedAge limits how long an unchanged state is trusted. The limit is needed for writes
	// through a memory map and for file systems with cached attributes.
	maxTrustedAge = 10 * time.Second
)

// refresh returns the current state of the files. If a file's state is incomplete, the result is
// not trusted.
func (s *configState) refresh(now time.Time) configState {
	newer := configState{names: s.names, checkedAt: now}
	for _, name := range s.names {
		state, ok := statFile(name)
		if !ok {
			return configState{names: s.names}
		}
		newer.states = append(newer.states, state)
	}
	return newer
}

// isUnchanged reports whether the files are unchanged since s, so that they need not be read.
func (s *configState) isUnchanged(newer *configState) bool {
	return !s.checkedAt.IsZero() && newer.checkedAt.Sub(s.checkedAt) < maxTrustedAge && slices.Equal(s.states, newer.states)
}

// detectsLaterWrites reports whether any write after s would change the state.
func (s *configState) detectsLaterWrites() bool {
	limit := s.checkedAt.Add(-minUnchangedTime)
	return !slices.ContainsFunc(s.states, func(f fileState) bool {
		return !f.modified.Before(limit) || !f.changed.Before(limit)
	})
}

// configFileNames returns the names of the files that a configuration was read from.
func configFileNames(c *config.Config) (names []string) {
	if path, dir := c.Path(); dir {
		names = append(names, path)
	}
	for _, f := range c.Files() {
		names = append(names, f.Name)
	}
	return names
}
