// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwardedSignals returns the signals to forward to a command. It leaves out ignored signals, such
// as SIGHUP under nohup.
func forwardedSignals(ignored func(os.Signal) bool) []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}
	return slices.DeleteFunc(all, ignored)
}

// forwardSignal forwards sig to p, unless sig may have been typed on the terminal as ^C or ^\. The
// system sends such a signal to the whole process group, and many programs exit immediately on a
// second ^C. Go does not report the sender of a signal. A process group for p would separate it from
// the other programs of a pipeline, which could then no longer read from the terminal.
func forwardSignal(p *os.Process, sig os.Signal) {
	if (sig == os.Interrupt || sig == syscall.SIGQUIT) && inForeground() {
		return
	}
	_ = p.Signal(sig) // an error means that the process has exited
}

// inForeground reports whether this program is in the terminal's foreground process
// group.
func inForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// exitStatus returns a command's exit code, or the signal that killed it.
func exitStatus(state *os.ProcessState) (code int, killedBy os.Signal) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return state.ExitCode(), nil
	}
	return 128 + int(status.Signal()), status.Signal()
}
