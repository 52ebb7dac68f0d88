// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !unix

package service

import "syscall"

func newProcessGroupAttr() *syscall.SysProcAttr { return nil }
