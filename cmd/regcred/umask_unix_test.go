// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import "syscall"

// setUmask keeps what scripts create from being writable by others, which is
// what some of them are about.
func setUmask() { syscall.Umask(0o022) }
