// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import "io/fs"

// writableByOthers returns nothing, because Windows has no mode bits. Only paths that the
// user has set are used there (see hasAbsolutePaths).
func writableByOthers(string, fs.FileInfo, int, bool) (who, fix string) { return "", "" }
