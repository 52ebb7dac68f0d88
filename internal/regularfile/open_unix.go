// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package regularfile

import "syscall"

// nonblockFlag opens a named pipe without waiting for a writer, and a terminal without
// making it the controlling terminal. It has no effect on regular files.
const nonblockFlag = syscall.O_NONBLOCK | syscall.O_NOCTTY
