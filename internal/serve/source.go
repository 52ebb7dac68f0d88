// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/executable"
	"github.com/regcred/regcred/internal/generation"
)

// Source is the location of the service's configuration. Set either StateDir, or Config and BinDir.
// All paths must be absolute.
type Source struct {
	StateDir string // state directory of "regcred install"; its current generation is used

	Config string // configuration file or directory
	BinDir string // directory with the plugins
}

// snapshot is a loaded configuration.
type snapshot struct {
	config *config.Config
	hash   string
	binDir string // with all symlinks resolved
	loaded time.Time

	// These fields are set only for a generation.
	generation string // directory of the generation
	entries    []entries.Entry
	maxStale   time.Duration
}

// pluginDir returns the directory from which the plugins are run. For a state directory, it contains a
// symlink to the current generation, because a keyring cannot change its directory.
func (s *Source) pluginDir() string {
	if s.StateDir != "" {
		return filepath.Join(s.StateDir, generation.CurrentBinDir)
	}
	return s.BinDir
}

// configPath returns the path of the configuration.
func (s *Source) configPath() string {
	if s.StateDir != "" {
		return filepath.Join(s.StateDir, generation.CurrentConfigDir)
	}
	return s.Config
}

// load loads the configuration.
func (s *Source) load() (*snapshot, error) {
	snap := &snapshot{loaded: time.Now()}
	if s.StateDir == "" {
		var err error
		if snap.config, err = config.Load(s.Config); err != nil {
			return nil, err
		}
		if info, err := os.Stat(s.BinDir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("the plugin directory %s is not a directory", s.BinDir)
		}
	} else {
		current, err := generation.OpenCurrent(s.StateDir)
		if err != nil {
			return nil, err
		}
		// The generation is not kept locked, because the service must not prevent its removal.
		defer current.Close()
		snap.config, snap.generation = current.Config, current.Dir
		snap.entries, snap.maxStale = current.Entries, time.Duration(current.Manifest.MaxStale)
		entries.SetDefaultCacheType(snap.config.Providers) // as the dispatcher does
	}
	snap.hash, snap.binDir = snap.config.Hash(), s.pluginDir()
	if real, err := filepath.EvalSymlinks(snap.binDir); err == nil {
		snap.binDir = real
	}
	return snap, nil
}

// watchedDirs returns the directories in which changes can affect the configuration.
func (s *Source) watchedDirs() (dirs []string) {
	if s.StateDir != "" {
		return []string{s.StateDir}
	}
	dirs = []string{filepath.Dir(s.Config), s.BinDir}
	if info, err := os.Stat(s.Config); err == nil && info.IsDir() {
		dirs = append(dirs, s.Config)
	}
	return dirs
}

// fingerprint identifies the state of all files that affect the configuration. It reads no file.
func (s *Source) fingerprint() string {
	h := sha256.New()
	if s.StateDir != "" {
		target, err := os.Readlink(filepath.Join(s.StateDir, generation.CurrentLink))
		fmt.Fprintf(h, "%q %v\n", target, err != nil)
		addFile(h, filepath.Join(s.StateDir, generation.AppliedFile))
	} else {
		addFile(h, s.Config)
		addDir(h, s.Config)
	}
	addDir(h, s.pluginDir())
	return hex.EncodeToString(h.Sum(nil))
}

// addDir adds the files in a directory to a fingerprint. A file that is not a directory is ignored.
func addDir(h hash.Hash, dir string) {
	list, err := os.ReadDir(dir)
	fmt.Fprintf(h, "%q %v\n", dir, err != nil)
	for _, e := range list {
		addFile(h, filepath.Join(dir, e.Name()))
	}
}

func addFile(h hash.Hash, name string) {
	info, err := os.Stat(name)
	if err != nil {
		fmt.Fprintf(h, "%q missing\n", name)
		return
	}
	fmt.Fprintf(h, "%q %d %v %d %d\n", name, info.Size(), info.Mode(), info.ModTime().UnixNano(), executable.ChangeTime(info).UnixNano())
}
