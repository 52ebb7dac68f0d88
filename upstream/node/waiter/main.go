// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Waiter is the program in the images that the tests run, the sandbox's
// included: it waits until it is told to end.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
}
