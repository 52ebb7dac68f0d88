// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package regularfile

import "syscall"

// nonblock opens a named pipe without waiting for its writer, and a terminal
// without being taken over by it. It changes nothing for a regular file.
const nonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY
