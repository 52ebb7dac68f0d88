// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package generation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/regcred/regcred/internal/flock"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/regularfile"
)

// Store reads and changes the state directory of a node. Callers must hold [Store.Lock] during
// changes.
type Store struct {
	FS  inroot.FS
	Dir string // path of the state directory on the node
}

// Path returns the path on the node of a file in the state directory.
func (s Store) Path(parts ...string) string { return path.Join(append([]string{s.Dir}, parts...)...) }

// GenerationPath returns the path on the node of a file in a generation.
func (s Store) GenerationPath(number int, parts ...string) string {
	return s.Path(append([]string{generationsDir, strconv.Itoa(number)}, parts...)...)
}

// DispatcherPath returns the path of the dispatcher on the node. The kubelet's bin dir contains
// links to it.
func (s Store) DispatcherPath() string { return s.Path(DispatcherName) }

// lockFile is the name of the file in [Store.lockDir] that changes lock.
const lockFile = ".regcred.lock"

// Lock prevents concurrent changes to a node; see [flock.Wait]. It locks a file outside the state
// directory, because changes also affect other files, and create or remove the state directory
// itself. It removes the file afterwards.
func (s Store) Lock(ctx context.Context) (unlock func(), err error) {
	node := inroot.FS{Root: s.FS.Root} // taking the lock is not a step of the change
	name := s.lockDir() + lockFile
	for {
		f, err := node.OpenLock(name)
		if isFull(err) || errors.Is(err, syscall.EROFS) {
			return flock.LockDir(ctx, node.HostPath(s.lockDir())) // without space for a file
		}
		if err != nil {
			return nil, err
		}
		if err := flock.Wait(ctx, f); err != nil {
			f.Close()
			return nil, err
		}
		// The previous holder may have removed the file before the lock was taken.
		opened, err := f.Stat()
		if now, nowErr := node.Lstat(name); err == nil && nowErr == nil && os.SameFile(opened, now) {
			return func() { _ = node.Remove(name); f.Close() }, nil
		}
		f.Close()
	}
}

// IsLockPresent reports whether the lock file exists. Then a process holds the lock, or was killed
// while it held the lock.
func (s Store) IsLockPresent() bool {
	return inroot.FS{Root: s.FS.Root}.Exists(s.lockDir() + lockFile)
}

// lockDir returns the directory of the lock file, with a final slash: /run, which is empty after
// a boot, or the root directory of an image without /run.
func (s Store) lockDir() string {
	if info, err := s.FS.Stat("/run"); err == nil && info.IsDir() {
		return "/run/"
	}
	return "/"
}

// isFull reports whether a file system has no space or inodes left.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Current returns the number of the current generation. The error wraps [fs.ErrNotExist] if no
// generation is current.
func (s Store) Current() (number int, err error) {
	return readCurrentLink(s.Path(currentLink), s.FS.Readlink)
}

// ListNumbers returns the numbers of all generations in ascending order. If the
// directory's path is a file, the list is empty.
func (s Store) ListNumbers() (list []int, err error) {
	entries, err := s.FS.ReadDir(s.Path(generationsDir))
	if err != nil && !inroot.IsMissing(err) {
		return nil, err
	}
	for _, e := range entries {
		if n, ok := parseDirName(e.Name()); ok {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}

// Manifest reads the manifest of a generation.
func (s Store) Manifest(ctx context.Context, number int) (*Manifest, error) {
	name := s.GenerationPath(number, manifestFile)
	data, err := s.FS.ReadFile(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("generation %d: %w", number, err)
	}
	return decodeManifest(s.FS.HostPath(name), data, number)
}

// ModifiedFiles returns the paths of a generation's files that are missing or were modified
// after the generation was created.
func (s Store) ModifiedFiles(ctx context.Context, m *Manifest) (list []string) {
	for _, f := range m.Files {
		name := s.GenerationPath(m.Number, f.Name)
		info, err := s.FS.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != f.Mode || s.FileSHA256(ctx, name) != f.SHA256 {
			list = append(list, name)
		}
	}
	return list
}

// FileSHA256 returns the SHA-256 hash of a file's content, or "" if the file cannot be
// read.
func (s Store) FileSHA256(ctx context.Context, name string) string {
	f, err := s.FS.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	sum, _, err := hashFile(ctx, f)
	if err != nil {
		return ""
	}
	return sum
}

func hashFile(ctx context.Context, f *os.File) (sum string, size int64, err error) {
	h := sha256.New()
	size, err = io.Copy(h, regularfile.WithContext(ctx, f))
	return hexSum(h), size, err
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// SourceFile describes a file for a new generation. Its hash is known in advance. [Store.Create]
// fails if the content has changed since then.
type SourceFile struct {
	File
	From string // path of the source on this machine; "" if the content is in memory
	Size int64
	Open func() (io.ReadCloser, error)
}

// SourceFileFromBytes returns a file for a new generation with the given content.
func SourceFileFromBytes(name string, mode fs.FileMode, data []byte) SourceFile {
	sum := sha256.Sum256(data)
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	return SourceFile{File: File{name, mode, hex.EncodeToString(sum[:])}, Size: int64(len(data)), Open: open}
}

// SourceFileFromPath returns a file for a new generation with the content of the file from.
func SourceFileFromPath(ctx context.Context, name string, mode fs.FileMode, from string) (SourceFile, error) {
	f, err := regularfile.Open(from)
	if err != nil {
		return SourceFile{}, err
	}
	defer f.Close()
	sum, size, err := hashFile(ctx, f)
	open := func() (io.ReadCloser, error) { return regularfile.Open(from) }
	return SourceFile{File: File{name, mode, sum}, From: from, Size: size, Open: open}, err
}

// ConfigFilePath returns the path of a configuration file, relative to a generation's
// directory.
func ConfigFilePath(name string) string { return path.Join(configDir, name) }

// ExecutablePath returns the path of a provider's executable, relative to a generation's
// directory.
func ExecutablePath(name string) string { return path.Join(binDir, name) }

// NextNumber returns the number for a new generation. It is greater than previous, even if that
// generation has been removed. 0 means that there is no previous generation.
func (s Store) NextNumber(previous int) (number int, err error) {
	numbers, err := s.ListNumbers()
	if len(numbers) > 0 {
		previous = max(previous, numbers[len(numbers)-1])
	}
	return previous + 1, err
}

// Create creates a generation with the given files. It sets Number and Files in the manifest.
// The generation is synced and becomes visible only if it is complete and check, which gets its
// temporary path, returns no error. check may be nil.
func (s Store) Create(ctx context.Context, m *Manifest, contents []SourceFile, check func(dir string) error) (err error) {
	if m.Number, err = s.NextNumber(m.Previous); err != nil {
		return err
	}
	m.SchemaVersion = schemaVersion
	if err := s.FS.Mkdir(s.Path(generationsDir), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	final := s.GenerationPath(m.Number)
	temp := s.Path(generationsDir, creatingDirName)
	if err := errors.Join(s.FS.RemoveAll(temp), s.createDir(ctx, temp, m, contents)); err != nil {
		_ = s.FS.RemoveAll(temp)
		return fmt.Errorf("create generation %d: %w", m.Number, err)
	}
	if check != nil {
		if err := check(temp); err != nil {
			_ = s.FS.RemoveAll(temp)
			return err
		}
	}
	return s.FS.Rename(temp, final)
}

// removingPrefix is the prefix of a generation's directory name while the generation is being
// removed.
const removingPrefix = "old-"

// IsTemporary reports whether a name in the directory of generations belongs to a generation
// that is being created or removed.
func IsTemporary(name string) bool {
	return name == creatingDirName || strings.HasPrefix(name, removingPrefix)
}

// CreateTestState creates a state directory in which generation number, which is still being
// created in dir, is current. The caller must call remove.
func (s Store) CreateTestState(number int, dir string) (state string, remove func(), err error) {
	state = s.Path(generationsDir, removingPrefix+"test")
	test := Store{FS: s.FS, Dir: state}
	err = errors.Join(s.FS.RemoveAll(state), s.FS.Mkdir(state, 0o700))
	if err == nil {
		err = s.FS.Mkdir(test.Path(generationsDir), 0o700)
	}
	if err == nil {
		err = s.FS.Symlink("../../"+path.Base(dir), test.GenerationPath(number))
	}
	if err == nil {
		err = test.Activate(number)
	}
	return state, func() { _ = s.FS.RemoveAll(state) }, err
}

// creatingDirName is the name of a generation's directory while the generation is being
// created.
const creatingDirName = "new"

// createDir creates a generation's directory. Only its owner can read it, because the
// configuration may contain secrets.
func (s Store) createDir(ctx context.Context, dir string, m *Manifest, contents []SourceFile) error {
	for _, d := range []string{dir, path.Join(dir, configDir), path.Join(dir, binDir)} {
		if err := s.FS.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	m.Files = nil
	for _, c := range contents {
		if err := s.addFile(ctx, dir, m, c); err != nil {
			return err
		}
	}
	if err := m.checkNames(); err != nil {
		return err
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return s.FS.WriteFile(path.Join(dir, manifestFile), bytes.NewReader(append(data, '\n')), inroot.FileAttr{Mode: 0o600})
}

// addFile writes a file of a new generation and adds it to the manifest.
func (s Store) addFile(ctx context.Context, dir string, m *Manifest, c SourceFile) error {
	r, err := c.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	h := sha256.New()
	if err := s.FS.WriteFile(path.Join(dir, c.Name), io.TeeReader(regularfile.WithContext(ctx, r), h), inroot.FileAttr{Mode: c.Mode}); err != nil {
		return err
	}
	if hexSum(h) != c.SHA256 {
		return fmt.Errorf("%s changed during the install: run regcred install again", c.Name)
	}
	m.Files = append(m.Files, c.File)
	return nil
}

// Activate makes a generation current with one rename.
func (s Store) Activate(number int) error {
	err := s.removeDirAt(s.Path(currentLink))
	if err == nil {
		err = s.FS.Symlink(generationsDir+"/"+strconv.Itoa(number), s.Path(currentLink))
	}
	if err != nil {
		return fmt.Errorf("make generation %d current: %w", number, err)
	}
	return nil
}

// removeDirAt removes a directory from a place where regcred has a file, because a rename does
// not replace directories.
func (s Store) removeDirAt(name string) error {
	if info, err := s.FS.Lstat(name); err == nil && info.IsDir() {
		return s.FS.RemoveAll(name)
	}
	return nil
}

// Deactivate removes the symlink to the current generation.
func (s Store) Deactivate() error {
	return errors.Join(s.removeDirAt(s.Path(currentLink)), s.FS.Remove(s.Path(currentLink)))
}

// InstallDispatcher installs a generation's dispatcher. A dispatcher can also read earlier
// generations. So a newer dispatcher is installed before its generation is activated, and an
// older one afterwards.
func (s Store) InstallDispatcher(number int) error {
	if err := s.removeDirAt(s.DispatcherPath()); err != nil {
		return err
	}
	return s.FS.HardLink(s.GenerationPath(number, DispatcherName), s.DispatcherPath())
}

// RemoveOld removes old generations, except generations that are in use, until at most keep
// remain. It keeps the current generation, then the one before it, then the latest. It also
// removes leftovers of interrupted changes.
func (s Store) RemoveOld(ctx context.Context, keep int) error {
	current, err := s.Current()
	if err != nil {
		return err
	}
	m, err := s.Manifest(ctx, current)
	if err != nil {
		return err
	}
	numbers, err := s.ListNumbers()
	if err != nil {
		return err
	}
	rank := func(n int) int {
		switch n {
		case current:
			return 2
		case m.Previous:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(numbers, func(a, b int) int { return rank(a) - rank(b) })
	var errs []error
	for _, n := range numbers[:max(0, len(numbers)-max(keep, 1))] {
		errs = append(errs, s.Remove(n))
	}
	return errors.Join(append(errs, s.RemoveLeftovers())...)
}

// RemoveLeftovers removes generations whose creation or removal was interrupted.
func (s Store) RemoveLeftovers() error {
	entries, err := s.FS.ReadDir(s.Path(generationsDir))
	errs := []error{err}
	for _, e := range entries {
		if _, ok := parseDirName(e.Name()); !ok {
			errs = append(errs, s.FS.RemoveAll(s.Path(generationsDir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// Remove removes a generation, unless it does not exist or is in use.
func (s Store) Remove(number int) error {
	dir := s.GenerationPath(number)
	f, err := s.FS.Open(dir)
	if inroot.IsMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if held, err := flock.TryLock(f); !held && (err == nil || !errors.Is(err, errors.ErrUnsupported)) {
		return err // another process uses the generation; a later RemoveOld removes it
	}
	// A process that has opened this directory but not locked it notices that it is gone, and
	// reads the symlink again.
	old := s.Path(generationsDir, removingPrefix+strconv.Itoa(number))
	if err := errors.Join(s.FS.RemoveAll(old), s.FS.Rename(dir, old)); err != nil {
		return err
	}
	return s.FS.RemoveAll(old)
}
