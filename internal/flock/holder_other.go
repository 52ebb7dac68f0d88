// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package flock

import "os"

// describeHolder returns "", because only Linux lists the holders of locks.
func describeHolder(*os.File) string { return "" }
