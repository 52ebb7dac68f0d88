// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package executable

// Noexec returns false: it is implemented only on Linux.
func Noexec(string) bool { return false }
