// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package hostrun

// SetExecutableLabel does nothing, because there is no SELinux.
func SetExecutableLabel(string) error { return nil }
