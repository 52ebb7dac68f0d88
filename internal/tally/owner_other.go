// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !unix

package tally

import "io/fs"

// ours returns true, because files have an owner and mode only on Unix.
func ours(fs.FileInfo) bool { return true }

func onlyOwnerWrites(fs.FileMode) bool { return true }
