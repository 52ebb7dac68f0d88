// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command vmhwm runs a program with its own standard input and environment. It prints the program's
// peak resident memory in KiB, which is VmHWM in /proc/PID/status.
//
// The file disappears when the process exits. The command therefore traces all threads and reads
// the file when the process is about to exit (ptrace(2), PTRACE_O_TRACEEXIT). The maximum from
// wait4 is not usable: it is rounded, and includes the memory of the process that started the
// program.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

func main() {
	runtime.LockOSThread() // ptrace requires calls from the tracer's thread
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vmhwm:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil { // the tracee stops at exec
		return err
	}
	if err := syscall.PtraceSetOptions(pid, syscall.PTRACE_O_TRACEEXIT|syscall.PTRACE_O_TRACECLONE); err != nil {
		return err
	}
	most := ""
	for thread := pid; ; {
		// The thread may have exited already.
		if err := syscall.PtraceCont(thread, signalToDeliver(status)); err != nil && err != syscall.ESRCH {
			return err
		}
		var err error
		if thread, err = syscall.Wait4(-1, &status, syscall.WALL, nil); err != nil {
			return err
		}
		switch {
		case status.TrapCause() == syscall.PTRACE_EVENT_EXIT && most == "":
			if most, err = peakMemory(pid); err != nil {
				return err
			}
		case thread == pid && (status.Signaled() || status.ExitStatus() > 0):
			return fmt.Errorf("%s: exit status %d, signal %d", args[0], status.ExitStatus(), status.Signal())
		case thread == pid && status.Exited():
			fmt.Println(most)
			return nil
		}
	}
}

// signalToDeliver returns the signal to deliver to a stopped thread, or 0.
func signalToDeliver(status syscall.WaitStatus) int {
	// A new thread starts with SIGSTOP. SIGTRAP reports trace events.
	if s := status.StopSignal(); status.Stopped() && s != syscall.SIGSTOP && s != syscall.SIGTRAP {
		return int(s)
	}
	return 0
}

// peakMemory returns the number of KiB in a line such as "VmHWM: 3724 kB".
func peakMemory(pid int) (string, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	_, rest, found := bytes.Cut(data, []byte("VmHWM:"))
	fields := bytes.Fields(rest)
	if !found || len(fields) == 0 {
		return "", fmt.Errorf("%s has no VmHWM", path)
	}
	return string(fields[0]), nil
}
