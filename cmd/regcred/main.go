// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Regcred resolves container-registry credentials as a Kubernetes node does,
// and explains every step. docs/cli.md describes the commands.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
	stop()
	os.Exit(code)
}

// run is the whole program without its globals. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return exitFailed
	}
	a := &app{
		stdin: stdin, stdout: stdout, stderr: stderr,
		environ: environ, dir: dir, root: "/", now: time.Now,
	}
	return a.run(ctx, args)
}
