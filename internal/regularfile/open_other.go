// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !unix

package regularfile

// nonblock is for named pipes that have a place among files.
const nonblock = 0
