// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package runstats_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/flock"
	"github.com/regcred/regcred/internal/runstats"
)

var testBatch = runstats.Batch{Runs: []runstats.Run{{Provider: "p", Result: runstats.ResultFound, Duration: time.Second}}}

// TestAdd verifies that AddBatch adds up batches in a file that only its owner can read.
func TestAdd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "regcred")
	if _, err := runstats.Read(t.Context(), dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	for range 3 {
		if err := runstats.AddBatch(t.Context(), dir, testBatch); err != nil {
			t.Fatal(err)
		}
	}
	checkCounts(t, dir, 3, 0)
	for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, filepath.Join(dir, "providers.json"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// checkCounts reads the counts and compares the numbers of runs and of dropped batches.
func checkCounts(t *testing.T, dir string, runs, dropped uint64) {
	t.Helper()
	c, err := runstats.Read(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if c.SchemaVersion != 1 || c.Runs[runstats.RunSucceeded] != runs || c.Providers["p"].Results[runstats.ResultFound] != runs || c.DroppedBatches != dropped {
		t.Errorf("%d runs, %+v, %d dropped; want %d, %d dropped", c.Runs[runstats.RunSucceeded], c.Providers["p"], c.DroppedBatches, runs, dropped)
	}
}

// TestLockBusy verifies that AddBatch gives up if it cannot get the lock in time, and that the next
// successful call counts the dropped batch.
func TestLockBusy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "regcred")
	if err := runstats.AddBatch(t.Context(), dir, testBatch); err != nil {
		t.Fatal(err)
	}
	unlock, err := flock.LockDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := runstats.AddBatch(ctx, dir, testBatch); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
	}
	unlock()
	for range 2 { // the second call must not add the dropped batches again
		if err := runstats.AddBatch(t.Context(), dir, testBatch); err != nil {
			t.Fatal(err)
		}
	}
	checkCounts(t, dir, 3, 2)
}

// TestDropsAreKept verifies that the number of dropped batches is kept if a process cannot write
// the counts or is killed before.
func TestDropsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "regcred")
	requireNoError(t, runstats.AddBatch(t.Context(), dir, testBatch))
	requireNoError(t, os.WriteFile(filepath.Join(dir, "dropped"), []byte("..."), 0o600))
	inTheWay := filepath.Join(dir, "providers.json.new")
	requireNoError(t, os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700))
	if err := runstats.AddBatch(t.Context(), dir, testBatch); err == nil {
		t.Fatal("it was written; this test shows nothing")
	}
	requireNoError(t, os.RemoveAll(inTheWay))
	requireNoError(t, runstats.AddBatch(t.Context(), dir, testBatch))
	checkCounts(t, dir, 2, 3)
}

// TestNoTimeLeft verifies that AddBatch with a canceled context either counts or drops the batch,
// and never resets the counts.
func TestNoTimeLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "regcred")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	const tries = 50
	for range tries {
		requireNoError(t, runstats.AddBatch(t.Context(), dir, testBatch))
		_ = runstats.AddBatch(ctx, dir, testBatch)
	}
	requireNoError(t, runstats.AddBatch(t.Context(), dir, testBatch))
	if c, err := runstats.Read(t.Context(), dir); err != nil || c.Runs[runstats.RunSucceeded]+c.DroppedBatches != 2*tries+1 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestDropCounterNotRegular verifies that the drop counter is not opened if it is not a regular
// file.
func TestDropCounterNotRegular(t *testing.T) {
	dir := t.TempDir()
	requireNoError(t, os.Chmod(dir, 0o700))
	requireNoError(t, syscall.Mkfifo(filepath.Join(dir, "dropped"), 0o600))
	unlock, err := flock.LockDir(t.Context(), dir)
	requireNoError(t, err)
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := runstats.AddBatch(ctx, dir, testBatch); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestConcurrentCounts verifies that all concurrent calls are counted, and that a concurrent reader
// always finds a complete file.
func TestConcurrentCounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "regcred")
	if err := runstats.AddBatch(t.Context(), dir, testBatch); err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 25
	ctx, stop := context.WithCancel(t.Context())
	var reader, all sync.WaitGroup
	reader.Go(func() {
		for ctx.Err() == nil {
			if _, err := runstats.Read(t.Context(), dir); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range writers {
		all.Go(func() {
			for range each {
				if err := runstats.AddBatch(t.Context(), dir, testBatch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	stop()
	reader.Wait()
	checkCounts(t, dir, writers*each+1, 0)
}

// TestForeignFiles verifies that other programs' files in place of the counts file are replaced or
// cause an error. Links are not followed, and pipes do not block.
func TestForeignFiles(t *testing.T) {
	for _, tt := range []struct {
		name  string
		put   func(t *testing.T, dir, file string)
		fails string // part of the error; "" means that the file is replaced with new counts
	}{
		{"garbage", func(t *testing.T, _, file string) { writeCounts(t, file, "{") }, ""},
		{"a later version", func(t *testing.T, _, file string) { writeCounts(t, file, `{"schemaVersion":2}`) }, ""},
		{"a hole", func(t *testing.T, _, file string) { writeCounts(t, file, `{"schemaVersion":1,"providers":{"p":null}}`) }, ""},
		{"too long", func(t *testing.T, _, file string) { writeCounts(t, file, strings.Repeat(" ", 5<<20)) }, ""},
		{"a pipe", func(t *testing.T, _, file string) { requireNoError(t, syscall.Mkfifo(file, 0o600)) }, ""},
		{"a link", func(t *testing.T, dir, file string) { requireNoError(t, os.Symlink(dir+"/../other", file)) }, ""},
		{"a link within", func(t *testing.T, dir, file string) { requireNoError(t, os.Symlink("dropped", file)) }, ""},
		{"of who was killed", func(t *testing.T, _, file string) { writeCounts(t, file+".new", "half") }, ""},
		{"a pipe for the dropped", func(t *testing.T, dir, _ string) { requireNoError(t, syscall.Mkfifo(dir+"/dropped", 0o600)) }, ""},
		{"a link for the new", func(t *testing.T, dir, file string) { requireNoError(t, os.Symlink(dir+"/../other", file+".new")) }, ""},
		{"a directory", func(t *testing.T, _, file string) { requireNoError(t, os.MkdirAll(file+"/x", 0o700)) }, "count in "},
		{"others may write", func(t *testing.T, dir, _ string) { requireNoError(t, os.Chmod(dir, 0o777)) }, "nothing was changed"},
		{"a link to the directory", func(t *testing.T, dir, _ string) {
			requireNoError(t, os.Rename(dir, dir+"2"))
			requireNoError(t, os.Symlink(dir+"2", dir))
		}, "nothing was changed"},
		{"a file", func(t *testing.T, dir, _ string) {
			requireNoError(t, os.Remove(dir))
			writeCounts(t, dir, "x")
		}, "nothing was changed"},
		{"no parent", func(t *testing.T, dir, _ string) { requireNoError(t, os.RemoveAll(filepath.Dir(dir))) }, "no such file"},
		{"another owner", func(t *testing.T, dir, _ string) {
			if os.Geteuid() != 0 {
				t.Skip("needs root, to give a directory away")
			}
			requireNoError(t, os.Chown(dir, 12345, 12345))
		}, "nothing was changed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "parent", "regcred")
			other := filepath.Join(filepath.Dir(dir), "other")
			requireNoError(t, os.MkdirAll(dir, 0o700))
			writeCounts(t, other, "untouched")
			tt.put(t, dir, filepath.Join(dir, "providers.json"))
			_, _ = runstats.Read(t.Context(), dir)
			err := runstats.AddBatch(t.Context(), dir, testBatch)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("got %v, want %q", err, tt.fails)
				}
				return
			}
			requireNoError(t, err)
			checkCounts(t, dir, 1, 0)
			if data, err := os.ReadFile(other); string(data) != "untouched" {
				t.Errorf("the file outside has %q, %v", data, err)
			}
		})
	}
}

func writeCounts(t *testing.T, path, text string) {
	t.Helper()
	requireNoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func requireNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
