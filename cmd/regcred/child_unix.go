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

// passedSignals are those that a command is to get. Those that are ignored, as
// nohup has it, remain so.
func passedSignals(ignored func(os.Signal) bool) []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}
	return slices.DeleteFunc(all, ignored)
}

// passOn passes a signal on. What a key of the terminal sends, the system has
// sent to the whole group, and twice might mean more: the second ^C of many a
// program ends it at once.
func passOn(p *os.Process, sig os.Signal) {
	if (sig == os.Interrupt || sig == syscall.SIGQUIT) && inForeground() {
		return
	}
	_ = p.Signal(sig) // if it has ended, there is nobody to tell
}

// inForeground reports whether this program's group is the one that its
// terminal sends signals to.
func inForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// endOf is how a command ended: its exit code, or the signal that killed it.
func endOf(state *os.ProcessState) (code int, killedBy os.Signal) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return state.ExitCode(), nil
	}
	return 128 + int(status.Signal()), status.Signal()
}
