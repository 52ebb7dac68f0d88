// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package lint

func mountedNoexec(string) bool { return false }
