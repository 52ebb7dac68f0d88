// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package regularfile

import "syscall"

// nonblockFlag makes Open not block on a named pipe without a writer, and not make a terminal
// the process's controlling terminal. It has no effect on regular files.
const nonblockFlag = syscall.O_NONBLOCK | syscall.O_NOCTTY
