// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Regcred resolves container registry credentials as a Kubernetes node does, and
// explains every step. See docs/cli for the commands.
package main

import (
	"context"
	"io"
	"os"
)

func main() {
	os.Exit(runWithSignals(func(ctx context.Context) int {
		return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
	}))
}

// run is main without global state. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	dir, _ := os.Getwd() // if the directory was deleted, only commands that need it fail
	a := newApp(stdin, stdout, stderr, environ)
	a.dir, a.root = dir, "/"
	return a.run(ctx, args)
}
