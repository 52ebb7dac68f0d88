// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command playground builds the playground, a page that runs regcred validate and
// regcred explain in a browser, and serves it on loopback:
//
//	go run ./docs/playground
//	go run ./docs/playground -port 8080
//	go run ./docs/playground -o DIR        # writes the site and exits
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	f := flag.NewFlagSet("playground", flag.ContinueOnError)
	port := f.Int("port", 0, "port to listen on at 127.0.0.1 (0 picks a free port)")
	out := f.String("o", "", "write the site to this new or empty directory, then exit")
	version := f.String("version", "", "regcred version to show on the page, such as v1.2.3")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	files, err := buildSite(ctx, *version)
	if err != nil {
		return err
	}
	if *out != "" {
		return writeSite(*out, files)
	}
	return serveSite(ctx, *port, files, stdout)
}

// serveSite serves the site on loopback until ctx is done.
func serveSite(ctx context.Context, port int, files map[string][]byte, stdout io.Writer) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newHandler(files), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	fmt.Fprintf(stdout, "http://%s/\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
