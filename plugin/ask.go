// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"errors"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/scrub"
)

// Ask asks a provider of this process as [Command] asks an executable: it
// returns when ctx ends even if p does not, a panic is an error, and the text
// of an error is scrubbed of the request's token and the passwords returned.
// Errors are of type [*ExecError] under the given name. A provider that
// ignores ctx is left behind.
func Ask(ctx context.Context, name string, p Provider, req *Request) (*Response, error) {
	resp, err := await.Result(ctx, "get credentials", func() (*Response, error) { return p.GetCredentials(ctx, req) })
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
