// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command hostrun runs a program through package hostrun. It passes the program's stdout
// on and prints the result as JSON to stderr.
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

// result is the JSON output.
type result struct {
	Code        int
	Error, Type string
	Stderr      string // the program's stderr
	Took        time.Duration
	Rights      map[string]string // privileges of this process, from /proc/self/status
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
	r, begin := result{Rights: processPrivileges()}, time.Now()
	var stderr strings.Builder
	r.Code, err = hostrun.Runner{Socket: os.Args[1], Unit: os.Args[2]}.Run(ctx, c, os.Stdout, &stderr)
	r.Took, r.Stderr = time.Since(begin), stderr.String()
	if err != nil {
		r.Error, r.Type = err.Error(), fmt.Sprintf("%T", err)
	}
	_ = json.NewEncoder(os.Stderr).Encode(r)
}

// processPrivileges returns this process's capabilities, NoNewPrivs and Uid.
func processPrivileges() map[string]string {
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
