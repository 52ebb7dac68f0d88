// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command docker-credential-regcred is a docker credential helper: it gives
// docker, podman, skopeo, crane, helm and others the credentials of a
// Kubernetes node's providers. See docs/docker-credential-helper.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// version is set by release builds: -ldflags "-X main.version=v1.2.3". The
// linker can only set package variables.
var version string

func main() {
	os.Exit(helperMain("/", timeouts{input: 10 * time.Second, plugin: 25 * time.Second, run: 30 * time.Second}))
}

// helperMain runs the program with all paths below root. A signal that ends it
// also ends the plugin, which has its own process group.
func helperMain(root string, l timeouts) int {
	ctx, stop := signal.NotifyContext(context.Background(), terminationSignals(signal.Ignored)...)
	defer stop()
	p := program{stdin: os.Stdin, stdout: os.Stdout, machine: environment{root: root, environ: os.Environ()}, limits: l}
	return p.run(ctx, os.Args[1:])
}

// terminationSignals returns the signals that end the program, except ignored ones, as
// with nohup. SIGHUP is sent when a session is closed.
func terminationSignals(ignored func(os.Signal) bool) []os.Signal {
	return slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, ignored)
}
