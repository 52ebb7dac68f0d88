// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/plugin"
)

// TestInProcess verifies that errors of an in-process provider are like errors of an
// executable, and that they are redacted.
func TestInProcess(t *testing.T) {
	answer := &plugin.Response{Auth: map[string]plugin.AuthConfig{"a": {Username: "u", Password: plugin.NewSecret(canary.PasswordSecret)}}}
	req := &plugin.Request{APIVersion: plugin.V1, Image: "a/b", ServiceAccountToken: plugin.NewSecret(canary.TokenSecret)}
	spoken := "with " + canary.PasswordSecret + " and " + canary.TokenSecret
	for _, tt := range []struct {
		name  string
		resp  *plugin.Response
		err   error
		stage plugin.Stage
		is    error // the error that errors.Is must find
		want  string
	}{
		{name: "an answer", resp: answer},
		{name: "nothing at all", stage: plugin.StageExec, want: "the provider returned neither a response nor an error"},
		{name: "an error", resp: answer, err: errors.New(spoken), stage: plugin.StageExec, want: "with "},
		{name: "its own deadline", err: joinedError(spoken, context.DeadlineExceeded), stage: plugin.StageTimeout, is: context.DeadlineExceeded, want: "deadline exceeded"},
		{name: "canceled", err: joinedError(spoken, context.Canceled), stage: plugin.StageCanceled, is: context.Canceled, want: "context canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := callInProcess(t.Context(), "mine", plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
				return tt.resp, tt.err
			}), req)
			if tt.stage == "" {
				if resp != tt.resp || err != nil {
					t.Errorf("got %v, %v, want the response", resp, err)
				}
				return
			}
			var failed *plugin.ExecError
			if !errors.As(err, &failed) || resp != nil {
				t.Fatalf("got %v, %v, want an *plugin.ExecError", resp, err)
			}
			if failed.Name != "mine" || failed.Stage != tt.stage || failed.ExitCode != -1 || !strings.Contains(failed.Err.Error(), tt.want) {
				t.Errorf("got %+v, want stage %s and %q", failed, tt.stage, tt.want)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
			for _, secret := range []string{canary.TokenSecret, canary.PasswordSecret} {
				if (secret == canary.TokenSecret || tt.resp != nil) && strings.Contains(err.Error(), secret) {
					t.Error("a secret is in the error")
				}
			}
		})
	}
}

func joinedError(text string, is error) error { return errors.Join(errors.New(text), is) }

// TestInProcessReturns verifies that callInProcess returns when ctx is done, even if the
// provider hangs.
func TestInProcessReturns(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := callInProcess(ctx, "deaf", plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
		cancel()
		<-release
		return nil, nil
	}), &plugin.Request{APIVersion: plugin.V1, Image: "a/b"})
	var failed *plugin.ExecError
	if resp != nil || !errors.As(err, &failed) || failed.Stage != plugin.StageCanceled {
		t.Errorf("got %v, %v, want stage %s", resp, err, plugin.StageCanceled)
	}
}

// TestInProcessKeepsExecError verifies that callInProcess keeps the stage and standard error if
// an in-process provider has run a plugin and returns the plugin's error.
func TestInProcessKeepsExecError(t *testing.T) {
	req := &plugin.Request{APIVersion: plugin.V1, Image: "a/b", ServiceAccountToken: plugin.NewSecret(canary.TokenSecret)}
	own := &plugin.ExecError{Name: "inner", Stage: plugin.StageTimeout, ExitCode: 7, Stderr: "said " + canary.TokenSecret, Err: joinedError("of "+canary.TokenSecret, context.DeadlineExceeded)}
	for name, err := range map[string]error{"plain": own, "wrapped": fmt.Errorf("mine: %w", own)} {
		t.Run(name, func(t *testing.T) {
			_, err := callInProcess(t.Context(), "outer", plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) { return nil, err }), req)
			var failed *plugin.ExecError
			if !errors.As(err, &failed) {
				t.Fatalf("got %v, want an *plugin.ExecError", err)
			}
			if failed == own || failed.Name != "outer" || failed.Stage != plugin.StageTimeout || failed.ExitCode != 7 || !strings.HasPrefix(failed.Stderr, "said ") {
				t.Errorf("got %+v, want stage, exit code and standard error of the run", failed)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v is not the end of a deadline any more", err)
			}
			canary.AssertAbsent(t, "error", failed.Error()+failed.Stderr)
		})
	}
}
