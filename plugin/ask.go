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
// Errors are of type [*ExecError] under the given name; one that p returns, as
// a Command does, keeps its stage, exit code and standard error. A provider
// that ignores ctx is left behind.
func Ask(ctx context.Context, name string, p Provider, req *Request) (*Response, error) {
	resp, err := await.Result(ctx, "get credentials", func() (*Response, error) { return p.GetCredentials(ctx, req) })
	if err == nil && resp == nil {
		err = errNoAnswer
	}
	if err == nil {
		return resp, nil
	}
	failed := &ExecError{Name: name, Stage: StageExec, ExitCode: -1}
	secrets := append(passwords(resp), req.ServiceAccountToken.Reveal())
	cause := scrub.Text(err.Error(), secrets)
	own, ran := errors.AsType[*ExecError](err)
	switch {
	case ran && own.Err != nil:
		failed.Stage, failed.ExitCode = own.Stage, own.ExitCode
		failed.Stderr = scrub.Text(own.Stderr, secrets)
		failed.Err = keepIs{scrub.Text(own.Err.Error(), secrets), ended(own.Err)}
	case errors.Is(err, context.DeadlineExceeded):
		failed.Stage, failed.Err = StageTimeout, keepIs{cause, context.DeadlineExceeded}
	case errors.Is(err, context.Canceled):
		failed.Stage, failed.Err = StageCanceled, keepIs{cause, context.Canceled}
	default:
		failed.Err = errors.New(cause)
	}
	return nil, failed
}

// ended is how a context ended, if that is what err comes from; else nil.
func ended(err error) error {
	for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, end) {
			return end
		}
	}
	return nil
}

// keepIs is a scrubbed text that is still known by what it was.
type keepIs struct {
	text string
	is   error
}

func (e keepIs) Error() string { return e.text }
func (e keepIs) Unwrap() error { return e.is }

var errNoAnswer = errors.New("the provider returned neither a response nor an error")

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
