// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// enterNetwork moves the calling goroutine's thread into a network namespace. The thread
// stays locked, so it exits with the goroutine.
func enterNetwork(namespace *os.File) error {
	runtime.LockOSThread()
	return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
}
