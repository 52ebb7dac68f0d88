// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command unit performs one operation of package service on a unit of this machine, and
// prints the result as JSON.
//
//	unit NAME.service state|reload|restart|log|wait REQUEST
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/regcred/regcred/internal/service"
)

// unitRequest holds the parameters of "log" and "wait".
type unitRequest struct {
	Before service.State
	Want   service.HealthCriteria
}

// unitResult is the JSON output.
type unitResult struct {
	State       service.State
	Lines       []string
	Error, Hint string
	Took        time.Duration
}

func main() {
	var r unitRequest
	if err := json.Unmarshal([]byte(os.Args[3]), &r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	begin := time.Now()
	var res unitResult
	err := runCommand(context.Background(), os.Args[1], os.Args[2], r, &res)
	res.Took = time.Since(begin)
	if err != nil {
		res.Error = err.Error()
	}
	if e, ok := errors.AsType[*service.Error](err); ok {
		res.Hint = e.Hint
	}
	if e, ok := errors.AsType[*service.UnhealthyError](err); ok {
		res.Lines = e.Lines
	}
	_ = json.NewEncoder(os.Stdout).Encode(res)
}

func runCommand(ctx context.Context, name, what string, r unitRequest, res *unitResult) (err error) {
	manager, err := service.Detect()
	if err != nil {
		return err
	}
	s := service.Service{Manager: manager, Name: name, Poll: 50 * time.Millisecond}
	switch what {
	case "state":
		res.State, err = s.State(ctx)
	case "reload":
		err = s.Reload(ctx)
	case "restart":
		err = s.Restart(ctx)
	case "log":
		res.Lines, err = s.Log(ctx, r.Before.Started)
	case "wait":
		res.State, err = s.WaitHealthy(ctx, r.Before, r.Want)
	}
	return err
}
