// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import "os"

// forwardedSignals returns the signals that this program catches, so that it does not exit before
// the command. ^C is sent to every program on the console.
func forwardedSignals(func(os.Signal) bool) []os.Signal { return []os.Signal{os.Interrupt} }

// forwardSignal does nothing, because the console has sent the signal to the command too.
func forwardSignal(*os.Process, os.Signal) {}

func exitStatus(state *os.ProcessState) (code int, killedBy os.Signal) { return state.ExitCode(), nil }
