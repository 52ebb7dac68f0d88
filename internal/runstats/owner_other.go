// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !unix

package runstats

import "io/fs"

// isWritableOnlyByUser returns true, because files have an owner and mode only on Unix.
func isWritableOnlyByUser(fs.FileInfo) bool { return true }
