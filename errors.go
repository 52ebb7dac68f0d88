// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"

	"github.com/regcred/regcred/plugin"
)

// ErrClosed is returned by lookups after [Keyring.Close].
var ErrClosed = errors.New("the keyring is closed")

// Stages of a lookup, in addition to the stages of an exec in package plugin.
const (
	StageServiceAccount plugin.Stage = "serviceAccount" // the service account could not be read, or its annotations are too large
	StageToken          plugin.Stage = "token"          // no token was issued, or the request's token is for another audience
	StageEchoedToken    plugin.Stage = "echoedToken"    // the response's password is the token, which is allowed only with cacheType Token
	StageSource         plugin.Stage = "source"         // a pull secret or docker config file could not be read or parsed
	StageBackoff        plugin.Stage = "backoff"        // the plugin was not run because it failed recently (Options.Backoff)
)

// stageError is an error that occurs in a lookup but not in an exec. It contains the stage at
// which the lookup failed.
type stageError struct {
	stage plugin.Stage
	err   error
}

func (e *stageError) Error() string { return e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

func newStageError(stage plugin.Stage, format string, args ...any) error {
	return &stageError{stage, fmt.Errorf(format, args...)}
}

// errorStage returns the stage at which err occurred, or "" if err is nil.
func errorStage(err error) plugin.Stage {
	var exec *plugin.ExecError
	var staged *stageError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &staged):
		return staged.stage
	case errors.As(err, &exec):
		return exec.Stage
	case errors.Is(err, context.DeadlineExceeded):
		return plugin.StageTimeout
	case errors.Is(err, context.Canceled):
		return plugin.StageCanceled
	}
	return plugin.StageExec
}

// providerError adds the provider's name to err unless err already contains it.
func providerError(name string, err error) error {
	if _, ok := errors.AsType[*plugin.ExecError](err); ok {
		return err
	}
	return fmt.Errorf("provider %q: %w", name, err)
}
