// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command docker-credential-regcred is a docker credential helper: it answers
// docker, podman, skopeo, crane, helm and others with what a Kubernetes node's
// credential providers have. docs/docker-credential-helper.md describes it.
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
// linker can only reach a package variable; nothing else writes it.
var version string

func main() {
	os.Exit(helperMain("/", limits{input: 10 * time.Second, plugin: 25 * time.Second, run: 30 * time.Second}))
}

// helperMain is the program on a machine whose paths begin at root. A signal
// that ends it ends the plugin too, which is in a process group of its own.
func helperMain(root string, l limits) int {
	ctx, stop := signal.NotifyContext(context.Background(), ending(signal.Ignored)...)
	defer stop()
	p := program{stdin: os.Stdin, stdout: os.Stdout, machine: machine{root: root, environ: os.Environ()}, limits: l}
	return p.run(ctx, os.Args[1:])
}

// ending are the signals that end the program: SIGHUP comes when a session is
// closed. Those that are ignored, as nohup has it, remain so.
func ending(ignored func(os.Signal) bool) []os.Signal {
	return slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, ignored)
}
