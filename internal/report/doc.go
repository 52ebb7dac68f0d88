// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package report contains the results of validate and explain: whether the kubelet
// would start with a configuration, lint findings, and the expected outcome of an image
// pull. The commands print these types with -o json, and the playground displays them.
//
// The package prints nothing and reads files only through package lint.
package report
