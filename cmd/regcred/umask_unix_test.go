// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import "syscall"

// setUmask prevents scripts from creating group- or world-writable files, because some
// scripts test file modes.
func setUmask() { syscall.Umask(0o022) }
