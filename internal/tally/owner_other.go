// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !unix

package tally

import "io/fs"

// ours returns true, because only Unix files have an owner and a mode.
func ours(fs.FileInfo) bool { return true }

func onlyOwnerWrites(fs.FileMode) bool { return true }
