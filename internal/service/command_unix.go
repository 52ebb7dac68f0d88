// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package service

import "syscall"

// ownProcessGroup makes a program one that a terminal's ^C does not reach.
func ownProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
