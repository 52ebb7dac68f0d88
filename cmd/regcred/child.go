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

// Exit codes for a command that could not be run, the same as for env and nice.
const (
	exitNotRun   = 126
	exitNotFound = 127
)

// runChild runs a command in this program's process group, so that it can use the
// terminal, and waits for it. Signals sent only to this program are forwarded to the
// command. runChild returns the command's exit code or, if a signal killed it, the
// signal and the exit code that shells use for it. err is not nil only if the command
// did not start.
func runChild(ctx context.Context, cmd *exec.Cmd) (code int, killedBy os.Signal, err error) {
	got := make(chan os.Signal, 16)
	signal.Notify(got, passedSignals(signal.Ignored)...) // never stopped, so that a signal does not prevent the cleanup after the command
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

// notRun returns the exit code for a command that did not start.
func notRun(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotRun
}
