// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package executable

// IsOnNoexecMount returns false, because it is implemented only on Linux.
func IsOnNoexecMount(string) bool { return false }
