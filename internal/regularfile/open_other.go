// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !unix

package regularfile

// nonblockFlag is 0, because this system has no named pipes in the file system.
const nonblockFlag = 0
