// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import "os"

// passedSignals are those that do not end this program before the command: a
// ^C comes to all programs of a console.
func passedSignals(func(os.Signal) bool) []os.Signal { return []os.Signal{os.Interrupt} }

// passOn does nothing: the command has got it.
func passOn(*os.Process, os.Signal) {}

func endOf(state *os.ProcessState) (code int, killedBy os.Signal) { return state.ExitCode(), nil }
