// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package flock

import "os"

// holder returns "", because only Linux lists the holders of locks.
func holder(*os.File) string { return "" }
