// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dispatch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
)

// DefaultStateDir returns the default state directory. This is the directory that contains the
// dispatcher's executable, after resolving symlinks.
func DefaultStateDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program's path: %w; set the state directory with --state-dir", err)
	}
	if real, err := filepath.EvalSymlinks(self); err == nil { // the executable may have been replaced
		self = real
	}
	return filepath.Dir(self), nil
}

// OpenProvider opens the current generation of a state directory. name is the name under
// which the kubelet runs the dispatcher, and selects the entry. The caller must close the
// generation after the request. Errors fit on one line and include a fix.
func OpenProvider(state, name string) (*Provider, *generation.LockedGeneration, error) {
	current, err := generation.OpenCurrent(state)
	if err != nil {
		return nil, nil, err
	}
	entry, err := FindEntry(current.Entries, name)
	if err != nil {
		current.Close()
		if current.EntriesErr != nil {
			err = fmt.Errorf("%w; %w", err, current.EntriesErr)
		}
		return nil, nil, fmt.Errorf("%s (current): %w; regcred status shows what is installed", current.Dir, err)
	}
	return &Provider{
		Entry:    entry,
		Config:   current.Config,
		BinDir:   current.BinDir(),
		MaxStale: time.Duration(current.Manifest.MaxStale),
	}, current, nil
}

// FindEntry returns the entry with the given name. If there are several, it merges
// their patterns, because the kubelet may still use any of them.
func FindEntry(all []entries.Entry, name string) (entry entries.Entry, err error) {
	found := false
	for _, e := range all {
		switch own := e.Provider(); {
		case e.Name != name:
		case !found:
			entry, found = e, true
			entry.MatchImages = slices.Clone(e.MatchImages)
		case !entry.Serves(&own):
			return entry, fmt.Errorf("the kubelet's configuration has two entries named %q with different tokenAttributes", name)
		default:
			entry.MatchImages = append(entry.MatchImages, e.MatchImages...)
		}
	}
	if !found {
		return entry, fmt.Errorf("the kubelet's configuration has no entry named %q, the name that this program was run as", name)
	}
	return entry, nil
}
