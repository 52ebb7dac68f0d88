// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import "os"

// exitBySignal returns STATUS_CONTROL_C_EXIT (0xC000013A), which tells a batch file that the
// user pressed Ctrl-C.
func exitBySignal(os.Signal) int { return -0x3ffffec6 }
