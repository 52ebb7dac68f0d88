// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package report is what validate and explain have to say, as data: whether a
// kubelet would start with a configuration, what the linter found in it, and
// how a pull of an image would go. The JSON of its types is what the commands
// print with -o json, and what the playground shows.
//
// It reads no file but through package lint, which looks at the executables if
// it is told where they are; it prints nothing.
package report
