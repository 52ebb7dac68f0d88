// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"context"
	"fmt"

	"github.com/regcred/regcred/internal/service"
)

// restartKubelet restarts the kubelet and waits until it is healthy.
func (in *Installer) restartKubelet(ctx context.Context, before service.State) error {
	in.say("restarting %s", in.Service.Name)
	if err := in.Service.Reload(ctx); err != nil {
		return err
	}
	if err := in.Service.Restart(ctx); err != nil {
		return err
	}
	in.say("waiting for the kubelet to become healthy")
	_, err := in.Service.WaitHealthy(ctx, before, in.Want)
	return err
}

// probe runs the test pull, if there is one.
func (in *Installer) probe(ctx context.Context) error {
	if in.Probe == nil {
		return nil
	}
	in.say("waiting for a test pull")
	limit := in.Want.Deadline()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %v: %w", limit, context.DeadlineExceeded))
	defer cancel()
	err := in.Probe(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("the test pull failed: %w", err)
	}
	return nil
}
