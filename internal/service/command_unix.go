// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package service

import "syscall"

// newProcessGroupAttr makes a program one that a terminal's ^C does not reach.
func newProcessGroupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
