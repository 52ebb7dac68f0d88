// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !unix

package tally

import "io/fs"

// isOwnedByUser returns true, because files have an owner and mode only on Unix.
func isOwnedByUser(fs.FileInfo) bool { return true }

func onlyOwnerCanWrite(fs.FileMode) bool { return true }
