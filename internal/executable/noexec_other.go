// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package executable

// IsOnNoexecMount returns false: it is implemented only on Linux.
func IsOnNoexecMount(string) bool { return false }
