// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package client

import (
	"context"
	"time"
)

// hedgeFraction is the part of a client's time limit after which it also runs the plugin itself.
const hedgeFraction = 4

// CallWithFallback calls the service and, if that fails, runs the plugin with local. limit is the time
// limit of the client. After a quarter of it, local is called although the service still runs the
// plugin: the service may lack a setting or permission without which the plugin hangs. The first
// success is returned and the other call is canceled. If both fail, the error is local's.
//
// byService reports whether the service returned the result.
func CallWithFallback[T any](ctx context.Context, limit time.Duration, service, local func(context.Context) (T, error)) (value T, byService bool, err error) {
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served, ran := make(chan result, 1), make(chan result, 1)
	go func() {
		v, err := service(ctx)
		served <- result{v, err}
	}()
	timer := time.NewTimer(limit / hedgeFraction)
	defer timer.Stop()
	running, failed := false, false // the local call, and the service
	var localErr error
	for {
		select {
		case r := <-served:
			if failed = r.err != nil; !failed {
				return r.value, true, nil
			}
			if !running && localErr == nil { // the usual case: no goroutine is needed
				value, err = local(ctx)
				return value, false, err
			}
			if localErr != nil {
				return value, false, localErr
			}
		case <-timer.C:
			running = true
			go func() {
				v, err := local(ctx)
				ran <- result{v, err}
			}()
		case r := <-ran:
			if r.err == nil || failed || ctx.Err() != nil {
				return r.value, false, r.err
			}
			running, localErr = false, r.err // the service may still succeed
		}
	}
}
