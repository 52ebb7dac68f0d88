// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command hostrun runs a program by package hostrun, and prints what came of it as
// JSON on standard error. What the program prints it prints.
//
//	hostrun SOCKET UNIT TIMEOUT COMMAND
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/hostrun"
)

// result is what came of it.
type result struct {
	Code        int
	Error, Type string
	Stderr      string // of the program
	Took        time.Duration
	Rights      map[string]string // of this process: CapEff, CapBnd, NoNewPrivs, Uid
}

func main() {
	var c hostrun.Command
	timeout, err := time.ParseDuration(os.Args[3])
	if err := errors.Join(err, json.Unmarshal([]byte(os.Args[4]), &c)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r, begin := result{Rights: rights()}, time.Now()
	var stderr strings.Builder
	r.Code, err = hostrun.Runner{Socket: os.Args[1], Unit: os.Args[2]}.Run(ctx, c, os.Stdout, &stderr)
	r.Took, r.Stderr = time.Since(begin), stderr.String()
	if err != nil {
		r.Error, r.Type = err.Error(), fmt.Sprintf("%T", err)
	}
	_ = json.NewEncoder(os.Stderr).Encode(r)
}

// rights are those of this process.
func rights() map[string]string {
	list := map[string]string{}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Uid":
			list[name] = strings.Join(strings.Fields(value), " ")
		}
	}
	return list
}
