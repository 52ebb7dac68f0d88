// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/regcred/regcred/internal/scrub"
)

// Ask asks a provider of this process as [Command] asks an executable: it
// returns when ctx ends even if p does not, a panic is an error, and the text
// of an error is scrubbed of the request's token and the passwords returned.
// Errors are of type [*ExecError] under the given name. A provider that
// ignores ctx is left behind.
func Ask(ctx context.Context, name string, p Provider, req *Request) (*Response, error) {
	resp, err := await(ctx, "get credentials", func() (*Response, error) { return p.GetCredentials(ctx, req) })
	if err == nil && resp == nil {
		err = errNoAnswer
	}
	if err == nil {
		return resp, nil
	}
	failed := &ExecError{Name: name, Stage: StageExec, ExitCode: -1}
	cause := scrub.Text(err.Error(), append(passwords(resp), req.ServiceAccountToken.Reveal()))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		failed.Stage, failed.Err = StageTimeout, keepIs{cause, context.DeadlineExceeded}
	case errors.Is(err, context.Canceled):
		failed.Stage, failed.Err = StageCanceled, keepIs{cause, context.Canceled}
	default:
		failed.Err = errors.New(cause)
	}
	return nil, failed
}

// keepIs is a scrubbed text that is still known by what it was.
type keepIs struct {
	text string
	is   error
}

func (e keepIs) Error() string { return e.text }
func (e keepIs) Unwrap() error { return e.is }

var errNoAnswer = errors.New("the provider returned neither an answer nor an error")

// passwords returns those of an answer, which may be nil.
func passwords(resp *Response) []string {
	var list []string
	if resp != nil {
		for _, auth := range resp.Auth {
			list = append(list, auth.Password.Reveal())
		}
	}
	return list
}

// await returns what f returns, or the cause of ctx's end if that comes
// first. f may ignore ctx: it is then left behind.
func await[T any](ctx context.Context, what string, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		res := result{err: fmt.Errorf("%s: the provider ended its goroutine", what)}
		defer func() {
			if recover() != nil {
				// The value of a panic may be anything, a secret too.
				res = result{err: fmt.Errorf("%s: panic %s", what, panicSite())}
			}
			done <- res
		}()
		res.value, res.err = f()
	}()
	select {
	case res := <-done:
		return res.value, res.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
}

// panicSite says where the panic being recovered began.
func panicSite() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	panicking := false
	for {
		frame, more := frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		switch {
		case frame.Function == "runtime.gopanic":
			panicking = true
		case panicking && !inRuntime:
			return fmt.Sprintf("in %s (%s:%d)", frame.Function, filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return "in the provider"
		}
	}
}
