// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command docker-credential-regcred is a docker credential helper. It gives docker, podman, skopeo,
// crane, helm and other clients the credentials that a Kubernetes node's credential providers
// return. See docs/docker-credential-helper.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// version is set by the linker in release builds: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	os.Exit(helperMain("/", timeouts{input: 10 * time.Second, plugin: 25 * time.Second, run: 30 * time.Second}))
}

// helperMain runs the helper with all paths below root, and returns the exit code. A termination
// signal also stops the plugin, which has its own process group.
func helperMain(root string, l timeouts) int {
	ctx, stop := signal.NotifyContext(context.Background(), terminationSignals(signal.Ignored)...)
	defer stop()
	p := program{stdin: os.Stdin, stdout: os.Stdout, machine: environment{root: root, environ: os.Environ()}, limits: l}
	return p.run(ctx, os.Args[1:])
}

// terminationSignals returns the signals that end the program. It leaves out ignored signals, such
// as SIGHUP under nohup.
func terminationSignals(ignored func(os.Signal) bool) []os.Signal {
	return slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, ignored)
}
