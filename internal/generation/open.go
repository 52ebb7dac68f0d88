// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package generation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/flock"
	"github.com/regcred/regcred/internal/regularfile"
)

// Names below the state directory, and below a generation's directory.
const (
	currentLink    = "current"
	generationsDir = "generations"
	manifestFile   = "manifest.json"
	configDir      = "config"
	binDir         = "bin"
)

// OpenGeneration is a generation that is in use.
type OpenGeneration struct {
	Dir      string // absolute, without links
	Manifest *Manifest
	Config   *config.Config

	// Entries contains all entries that a kubelet may have in memory: the manifest's
	// entries, and those that the kubelet's configuration had before or has now.
	// EntriesErr is set if only the manifest's entries are known.
	Entries    []entries.Entry
	EntriesErr error

	file *os.File // of Dir, locked
}

// BinDir returns the directory that contains the providers' executables.
func (c *OpenGeneration) BinDir() string { return filepath.Join(c.Dir, binDir) }

// Close allows the generation to be removed.
func (c *OpenGeneration) Close() error { return c.file.Close() }

// maxOpenAttempts limits how often the link is read again because a generation was
// removed before it could be locked.
const maxOpenAttempts = 100

// errGenerationRemoved is returned if the generation was removed or is about to be
// removed.
var errGenerationRemoved = errors.New("the generation is being removed")

// OpenCurrent opens the current generation of a state directory for reading. The
// generation is not removed until Close. Errors fit on one line and include a fix.
func OpenCurrent(dir string) (*OpenGeneration, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		c, err := openOnce(dir)
		if !errors.Is(err, errGenerationRemoved) || try == maxOpenAttempts {
			return c, err
		}
		time.Sleep(time.Duration(try) * 100 * time.Microsecond)
	}
}

func openOnce(dir string) (*OpenGeneration, error) {
	link := filepath.Join(dir, currentLink)
	number, err := readCurrentLink(link, os.Readlink)
	if err != nil {
		return nil, err
	}
	c := &OpenGeneration{Dir: filepath.Join(dir, generationsDir, strconv.Itoa(number))}
	if c.file, err = lockShared(c.Dir); err != nil {
		if again, _ := readCurrentLink(link, os.Readlink); again != number {
			return nil, errGenerationRemoved
		}
		return nil, fmt.Errorf("%s points to generation %d, which cannot be opened: %w; regcred status lists the generations, and regcred rollback N switches to one of them", link, number, err)
	}
	if err := c.readAll(dir); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// readCurrentLink returns the generation number in the link.
func readCurrentLink(link string, readlink func(string) (string, error)) (int, error) {
	target, err := readlink(link)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("%s does not exist, so this node has no generation (regcred install creates one): %w", link, fs.ErrNotExist)
	case errors.Is(err, syscall.EINVAL):
		return 0, fmt.Errorf("%s is not a symbolic link: remove it, then run regcred rollback N", link)
	case err != nil:
		return 0, fmt.Errorf("read the link to the current generation: %w", err)
	}
	number, ok := parseDirName(filepath.Base(target))
	if filepath.ToSlash(target) != generationsDir+"/"+strconv.Itoa(number) || !ok {
		return 0, fmt.Errorf("%s points to %q, which is not a regcred generation; regcred rollback N switches to one", link, target)
	}
	return number, nil
}

// parseDirName parses the name of a generation's directory.
func parseDirName(name string) (number int, ok bool) {
	n, err := strconv.Atoi(name)
	return n, err == nil && n > 0 && strconv.Itoa(n) == name
}

// lockShared opens a directory and marks it as in use.
func lockShared(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, regularfile.BareError(err)
	}
	if shared, err := flock.TryLockShared(f); !shared && (err == nil || !errors.Is(err, errors.ErrUnsupported)) {
		f.Close()
		return nil, errors.Join(errGenerationRemoved, err)
	}
	// The directory may have been removed before it was locked.
	opened, err := f.Stat()
	if now, nowErr := os.Stat(dir); err != nil || nowErr != nil || !os.SameFile(opened, now) {
		f.Close()
		return nil, errGenerationRemoved
	}
	return f, nil
}

// maxManifestSize limits the size of a manifest, in bytes.
const maxManifestSize = 16 << 20

// readAll reads the manifest, the configuration and the applied entries.
func (c *OpenGeneration) readAll(state string) (err error) {
	name := filepath.Join(c.Dir, manifestFile)
	data, err := regularfile.Read(context.Background(), name, maxManifestSize)
	if err != nil {
		return fmt.Errorf("this generation is damaged: %w; regcred rollback N switches to another one", err)
	}
	if c.Manifest, err = decodeManifest(name, data); err != nil {
		return fmt.Errorf("%w; regcred rollback N switches to another generation", err)
	}
	if c.Config, err = config.Load(filepath.Join(c.Dir, configDir)); err != nil {
		return fmt.Errorf("this generation is damaged: %w; regcred rollback N switches to another one", err)
	}
	applied, err := readAppliedEntries(state)
	c.Entries, c.EntriesErr = append(slices.Clip(c.Manifest.Entries), applied...), err
	return nil
}

// AppliedFile is the name, in the state directory, of a list of [AppliedChange], earliest
// first. The list is needed because a kubelet reads its configuration only once. So it
// may have the entries of another generation than the current one.
const AppliedFile = "applied.json"

// BootTime is a point in time within one boot, measured by a clock that cannot be set.
type BootTime struct {
	Boot  string `json:"boot"`  // /proc/sys/kernel/random/boot_id
	Ticks uint64 `json:"ticks"` // hundredths of a second since boot
}

// AppliedChange is a change to the kubelet's configuration.
type AppliedChange struct {
	BootTime
	Generation int             `json:"generation"` // 0 means that regcred was removed
	Entries    []entries.Entry `json:"entries,omitempty"`
}

// readAppliedEntries returns the entries that a kubelet may have in memory in addition
// to the current generation's.
func readAppliedEntries(dir string) (list []entries.Entry, err error) {
	name := filepath.Join(dir, AppliedFile)
	data, err := regularfile.Read(context.Background(), name, maxManifestSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's loaded entries: %w", err)
	}
	var records []AppliedChange
	if json.Unmarshal(data, &records) != nil {
		return nil, nil // "regcred status" reports it; pulls continue with the manifest's entries
	}
	for _, r := range records {
		list = append(list, r.Entries...)
	}
	return list, nil
}
