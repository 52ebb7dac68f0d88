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

// File names in the state directory and in a generation's directory.
const (
	currentLink    = "current"
	generationsDir = "generations"
	manifestFile   = "manifest.json"
	configDir      = "config"
	binDir         = "bin"
)

// LockedGeneration is a generation that is open for reading. regcred does not remove it until
// Close is called.
type LockedGeneration struct {
	Dir      string // absolute path of the generation's directory, not of the symlink
	Manifest *Manifest
	Config   *config.Config

	// Entries contains all entries that the kubelet may have loaded: the manifest's entries,
	// and entries of other generations. If EntriesErr is set, it contains only the manifest's
	// entries.
	Entries    []entries.Entry
	EntriesErr error

	file *os.File // the open directory, with a shared lock
}

// BinDir returns the directory that contains the providers' executables.
func (c *LockedGeneration) BinDir() string { return filepath.Join(c.Dir, binDir) }

func (c *LockedGeneration) number() int {
	n, _ := strconv.Atoi(filepath.Base(c.Dir))
	return n
}

// Paths in the state directory: the symlink to the current generation, and this generation's
// configuration and executables.
const (
	CurrentLink      = currentLink
	CurrentConfigDir = currentLink + "/" + configDir
	CurrentBinDir    = currentLink + "/" + binDir
)

// CurrentDir returns the directory of the current generation without opening it.
func CurrentDir(state string) (string, error) {
	state, err := filepath.Abs(state)
	if err != nil {
		return "", err
	}
	number, err := readCurrentLink(filepath.Join(state, currentLink), os.Readlink)
	return filepath.Join(state, generationsDir, strconv.Itoa(number)), err
}

// Close releases the generation, so that it can be removed.
func (c *LockedGeneration) Close() error { return c.file.Close() }

// maxOpenAttempts is the maximum number of attempts to open the current generation. An attempt
// fails if the generation is removed before it can be locked.
const maxOpenAttempts = 100

// errGenerationRemoved means that the generation was removed or is being removed.
var errGenerationRemoved = errors.New("the generation is being removed")

// OpenCurrent opens the current generation in a state directory for reading. The caller must
// close it. Errors fit on one line and suggest a fix.
func OpenCurrent(dir string) (*LockedGeneration, error) {
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

func openOnce(dir string) (*LockedGeneration, error) {
	link := filepath.Join(dir, currentLink)
	number, err := readCurrentLink(link, os.Readlink)
	if err != nil {
		return nil, err
	}
	c := &LockedGeneration{Dir: filepath.Join(dir, generationsDir, strconv.Itoa(number))}
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

// readCurrentLink returns the number of the generation to which the symlink points.
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

// maxNumber is the maximum number of a generation, far from an overflow.
const maxNumber = 999_999_999

// parseDirName parses the name of a generation's directory.
func parseDirName(name string) (number int, ok bool) {
	n, err := strconv.Atoi(name)
	return n, err == nil && 0 < n && n <= maxNumber && strconv.Itoa(n) == name
}

// IsNumber reports whether name is the name of a generation's directory.
func IsNumber(name string) bool {
	_, ok := parseDirName(name)
	return ok
}

// lockShared opens a generation's directory and takes a shared lock, so that the generation is
// not removed.
func lockShared(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, regularfile.BareError(err)
	}
	if shared, err := flock.TryLockShared(f); !shared && (err == nil || !errors.Is(err, errors.ErrUnsupported)) {
		f.Close()
		return nil, errors.Join(errGenerationRemoved, err)
	}
	// The directory may have been removed before the lock was taken.
	opened, err := f.Stat()
	if now, nowErr := os.Stat(dir); err != nil || nowErr != nil || !os.SameFile(opened, now) {
		f.Close()
		return nil, errGenerationRemoved
	}
	return f, nil
}

// maxManifestSize is the maximum size of a manifest, in bytes.
const maxManifestSize = 16 << 20

// readAll reads the manifest, the configuration, and the entries that the kubelet may have
// loaded.
func (c *LockedGeneration) readAll(state string) (err error) {
	name := filepath.Join(c.Dir, manifestFile)
	data, err := regularfile.Read(context.Background(), name, maxManifestSize)
	if err != nil {
		return damageError(err)
	}
	if c.Manifest, err = decodeManifest(name, data, c.number()); err != nil {
		return fmt.Errorf("%w; regcred rollback N switches to another generation", err)
	}
	if c.Config, err = config.Load(filepath.Join(c.Dir, configDir)); err != nil {
		return damageError(err)
	}
	applied, err := readAppliedEntries(state)
	c.Entries, c.EntriesErr = append(slices.Clip(c.Manifest.Entries), applied...), err
	return nil
}

// damageError returns the error for a file of a generation that cannot be read. A lack of
// resources or permissions is no damage, so another generation would not help.
func damageError(err error) error {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, fs.ErrPermission} {
		if errors.Is(err, lack) {
			return fmt.Errorf("read the current generation: %w", err)
		}
	}
	return fmt.Errorf("this generation is damaged: %w; regcred rollback N switches to another one", err)
}

// AppliedFile is the name of a file in the state directory that contains a list of
// [AppliedChange], earliest first. A kubelet reads its configuration only when it starts. So it
// may have loaded the entries of a generation that is no longer current.
const AppliedFile = "applied.json"

// BootTime is the time since a specific boot of the machine. Changes to the system clock do not
// affect it.
type BootTime struct {
	Boot  string `json:"boot"`  // ID of the boot, from /proc/sys/kernel/random/boot_id
	Ticks uint64 `json:"ticks"` // hundredths of a second since boot
}

// AppliedChange records a change to regcred's entries in the kubelet's configuration.
type AppliedChange struct {
	BootTime
	Generation int             `json:"generation"` // number of the generation; 0 means that regcred was removed
	Entries    []entries.Entry `json:"entries,omitempty"`
}

// readAppliedEntries returns the entries in AppliedFile, which the kubelet may have loaded.
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
		return nil, nil // regcred status reports the damaged file, and the manifest's entries are used
	}
	for _, r := range records {
		list = append(list, r.Entries...)
	}
	return list, nil
}
