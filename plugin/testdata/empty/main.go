// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command empty does nothing: what a Go program costs at least.
package main

func main() {}
