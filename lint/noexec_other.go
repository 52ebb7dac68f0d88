// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package regcred

func mountedNoexec(string) bool { return false }
