// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command empty does nothing. A benchmark compares its start time with that of a plugin.
package main

func main() {}
