// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux || darwin

package flock_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/internal/flock"
	"github.com/regcred/regcred/internal/must"
)

// TestLockHeld verifies that LockDir returns an error if another process keeps the lock, or
// when the context ends.
func TestLockHeld(t *testing.T) {
	const longest = 2 * time.Minute
	dir := t.TempDir()
	unlock := must.Get(flock.LockDir(t.Context(), dir))(t)
	defer unlock()
	for _, patience := range []time.Duration{time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began := time.Now()
			_, err := flock.LockDir(ctx, dir)
			took, want, says := time.Since(began), patience, context.DeadlineExceeded.Error()
			if patience > longest {
				want, says = longest, "has held the lock"
				if runtime.GOOS == "linux" {
					says = fmt.Sprintf("process %d has held the lock", os.Getpid())
				}
			}
			if err == nil || !strings.Contains(err.Error(), says) || took < want || took > want+time.Second {
				t.Errorf("got %v after %s, want %q after %s", err, took, says, want)
			}
		})
	}
}
