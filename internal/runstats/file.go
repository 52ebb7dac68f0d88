// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package runstats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/regcred/regcred/internal/flock"
	"github.com/regcred/regcred/internal/regularfile"
)

const (
	countsFileName    = "providers.json"
	newCountsFileName = "providers.json.new"
	droppedFileName   = "dropped" // one byte per dropped batch; never reset, so that none is lost if a process is killed

	maxFileSize    = 4 << 20 // bytes; enough for maxProviders providers with the longest messages, even if each byte is escaped as six
	maxDroppedSize = 1 << 20
)

// AddBatch adds a batch to the counts file in dir. It creates dir if necessary. If ctx is
// done before the file is written, the batch is counted as dropped, and the next successful
// AddBatch updates the dropped count. If the counts file is not a regular file, AddBatch
// replaces it without opening it, unless it is a directory. AddBatch does not change a
// directory dir that other users own or may write to.
func AddBatch(ctx context.Context, dir string, b Batch) error {
	root, err := openDir(dir)
	if err != nil {
		return fmt.Errorf("count in %s: %w", dir, regularfile.BareError(err))
	}
	defer root.Close()
	unlock, err := lockDir(ctx, root)
	if err != nil {
		recordDroppedBatch(root)
		return fmt.Errorf("count in %s: wait for the lock: %w", dir, err)
	}
	defer unlock()
	now := time.Now()
	c, err := readCounts(ctx, root)
	switch {
	case ctx.Err() != nil: // the file may still be valid
		recordDroppedBatch(root)
		return fmt.Errorf("count in %s: %w", dir, ctx.Err())
	case err != nil:
		c = newCounts(now)
	}
	c.DroppedBatches = countDroppedBatches(root)
	c.addBatch(b, now)
	if err := writeCounts(root, c); err != nil {
		return fmt.Errorf("count in %s: %w", filepath.Join(dir, countsFileName), regularfile.BareError(err))
	}
	return nil
}

// lockRetryInterval is the time between two attempts to take the lock. It is short, because
// the lock is usually held for less time and the kubelet is waiting.
const lockRetryInterval = time.Millisecond

// lockDir takes the lock on a directory. It does nothing on systems without locks.
func lockDir(ctx context.Context, root *os.Root) (unlock func(), err error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	for {
		held, err := flock.TryLock(dir)
		if held || errors.Is(err, errors.ErrUnsupported) {
			return func() { dir.Close() }, nil
		}
		if err == nil {
			select {
			case <-time.After(lockRetryInterval):
				continue
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		dir.Close()
		return nil, err
	}
}

// Read returns the counts in dir. It returns an [fs.ErrNotExist] if nothing has been
// counted since the node was booted.
func Read(ctx context.Context, dir string) (*Counts, error) {
	path := filepath.Join(dir, countsFileName)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read counts in %s: %w", path, regularfile.BareError(err))
	}
	defer root.Close()
	c, err := readCounts(ctx, root)
	if err != nil {
		return nil, fmt.Errorf("read counts in %s: %w", path, regularfile.BareError(err))
	}
	return c, nil
}

// openDir opens a directory that this user owns and only this user can write to. It
// creates the directory if necessary.
func openDir(dir string) (*os.Root, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || !isWritableOnlyByUser(info) {
		return nil, errors.New("the path must be a directory that only this user can write to; nothing was changed")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if now, err := root.Stat("."); err != nil || !os.SameFile(info, now) {
		root.Close()
		return nil, errors.New("the directory was replaced after it was checked")
	}
	return root, nil
}

func readCounts(ctx context.Context, root *os.Root) (*Counts, error) {
	if info, err := root.Lstat(countsFileName); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("expected a regular file but found %s", (&regularfile.NotRegularError{Mode: info.Mode()}).Kind())
	}
	data, err := regularfile.ReadIn(ctx, root, countsFileName, maxFileSize)
	if err != nil {
		return nil, err
	}
	var c Counts
	if err := json.Unmarshal(data, &c); err != nil || !c.IsValid() {
		return nil, errors.New("not in regcred's format; the next provider run starts a new file")
	}
	return &c, nil
}

// writeCounts replaces the file. It does not sync, because the file does not survive a
// reboot.
func writeCounts(root *os.Root, c *Counts) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_ = root.Remove(newCountsFileName) // left over from a process that was killed while writing
	f, err := root.OpenFile(newCountsFileName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		_ = root.Remove(newCountsFileName)
		return err
	}
	return root.Rename(newCountsFileName, countsFileName)
}

// recordDroppedBatch records a dropped batch without holding the lock.
func recordDroppedBatch(root *os.Root) {
	info, err := root.Lstat(droppedFileName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() >= maxDroppedSize) {
		return
	}
	f, err := root.OpenFile(droppedFileName, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write([]byte{'.'})
}

// countDroppedBatches returns how many batches were dropped since the node was booted. It removes
// anything that is not a regular file from the path.
func countDroppedBatches(root *os.Root) uint64 {
	info, err := root.Lstat(droppedFileName)
	if err != nil {
		return 0
	}
	if !info.Mode().IsRegular() {
		_ = root.Remove(droppedFileName)
		return 0
	}
	return uint64(min(info.Size(), maxDroppedSize))
}
