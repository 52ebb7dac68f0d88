// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import "io/fs"

// writableByOthers finds nothing: Windows has no mode bits to read, and none
// of the well-known locations is a Windows path.
func writableByOthers(fs.FileInfo, int) (who, mend string) { return "", "" }

// foreign is asked about processes in /proc, which Windows has not.
func foreign(fs.FileInfo, int) bool { return false }
