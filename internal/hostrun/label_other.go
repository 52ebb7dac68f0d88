// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package hostrun

// Executable does nothing: there is no SELinux.
func Executable(string) error { return nil }
