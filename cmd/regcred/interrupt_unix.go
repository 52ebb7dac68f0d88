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

// dieOf ends the program by a signal. It returns the exit code that a shell
// makes of such a death only if there is none: if the signal is blocked.
func dieOf(sig os.Signal) int {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return exitFailed
	}
	signal.Reset(number)
	if syscall.Kill(os.Getpid(), number) == nil {
		time.Sleep(time.Second) // it may be another thread that gets it
	}
	return 128 + int(number)
}
