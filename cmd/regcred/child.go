// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
)

// The exit codes of a command that could not be run, as env and nice have them.
const (
	exitNotRun   = 126
	exitNotFound = 127
)

// runChild runs a command in this program's process group, so that it has the
// terminal, and until it ends. Signals that come to this program alone are
// passed on to it. It returns the exit code, which is the command's; a command
// that a signal killed has the number of it, and the code that shells make of
// it. The error is that it was not started.
func runChild(ctx context.Context, cmd *exec.Cmd) (code int, killedBy os.Signal, err error) {
	got := make(chan os.Signal, 16)
	signal.Notify(got, passedSignals(signal.Ignored)...) // to the end: what follows the command tidies up
	if err := handOver(ctx); err != nil {
		return exitFailed, nil, err
	}
	if err := cmd.Start(); err != nil {
		return notRun(err), nil, err
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-got:
				passOn(cmd.Process, sig)
			case <-done:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(done)
	if ended, ok := errors.AsType[*exec.ExitError](err); ok || err == nil {
		if err == nil {
			return exitOK, nil, nil
		}
		code, killedBy = endOf(ended.ProcessState)
		return code, killedBy, nil
	}
	return exitFailed, nil, err
}

// notRun is the exit code for a command that was not started.
func notRun(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotRun
}
