// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/scrub"
	"github.com/regcred/regcred/plugin"
)

// callInProcess calls an in-process provider as safely as [plugin.Command] runs an executable.
// It returns when ctx is done even if p does not return. It turns a panic into an error, and
// redacts error texts. Errors have type [*plugin.ExecError]. If p returns an ExecError, its
// stage, exit code and standard error are kept.
func callInProcess(ctx context.Context, name string, p plugin.Provider, req *plugin.Request) (*plugin.Response, error) {
	resp, err := await.Call(ctx, "get credentials", func() (*plugin.Response, error) { return p.GetCredentials(ctx, req) })
	if err == nil && resp == nil {
		err = errors.New("the provider returned neither a response nor an error")
	}
	if err == nil {
		return resp, nil
	}
	failed := &plugin.ExecError{Name: name, Stage: plugin.StageExec, ExitCode: -1}
	secrets := []string{req.ServiceAccountToken.Reveal()}
	if resp != nil {
		for _, auth := range resp.Auth {
			secrets = append(secrets, auth.Password.Reveal())
		}
	}
	cause := err
	exec, ok := errors.AsType[*plugin.ExecError](err)
	switch {
	case ok && exec.Err != nil:
		failed.Stage, failed.ExitCode, failed.Stderr = exec.Stage, exec.ExitCode, scrub.Redact(exec.Stderr, secrets)
		cause = exec.Err
	case errors.Is(err, context.DeadlineExceeded):
		failed.Stage = plugin.StageTimeout
	case errors.Is(err, context.Canceled):
		failed.Stage = plugin.StageCanceled
	}
	failed.Err = redactedError{scrub.Redact(cause.Error(), secrets), contextError(cause)}
	return nil, failed
}

func contextError(err error) error {
	for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, end) {
			return end
		}
	}
	return nil
}

// redactedError is an error with redacted text that still wraps the original context
// error.
type redactedError struct {
	text       string
	contextErr error
}

func (e redactedError) Error() string { return e.text }
func (e redactedError) Unwrap() error { return e.contextErr }
