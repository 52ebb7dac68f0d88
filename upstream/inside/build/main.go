// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command build builds a kubelet with regcred embedded:
//
//	cd upstream && go run ./inside/build -o PATH
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/regcred/regcred/upstream/inside"
)

func main() {
	out := flag.String("o", "", "`path` of the kubelet to write")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: go run ./inside/build -o PATH")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := inside.Build(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
	fmt.Println(*out, inside.Version)
}
