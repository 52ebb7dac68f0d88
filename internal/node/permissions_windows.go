// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import "io/fs"

// writableByOthers returns "", because Windows has no mode bits. On Windows, regcred uses only
// paths that the user has set (see hasAbsolutePaths).
func writableByOthers(string, fs.FileInfo, int, bool) (who, fix string) { return "", "" }
