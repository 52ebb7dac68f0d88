// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// exitBySignal kills the program with sig. If the signal is blocked, it returns the exit code that
// shells use for the signal.
func exitBySignal(sig os.Signal) int {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return exitFailed
	}
	signal.Reset(number)
	if syscall.Kill(os.Getpid(), number) == nil {
		time.Sleep(time.Second) // another thread may receive the signal
	}
	return 128 + int(number)
}
