// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command maxrss runs a program with its own standard input and environment,
// and prints the most memory that was resident while it ran, in KiB.
//
// It is a process of its own since Linux begins a program's maximum with the
// memory of the process that starts it, and bench is much larger than a plugin.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

func main() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "maxrss:", err)
		os.Exit(1)
	}
	fmt.Println(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
}
