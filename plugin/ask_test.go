// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
)

// TestAsk: a provider of this process fails as an executable does, and what
// it says is scrubbed.
func TestAsk(t *testing.T) {
	answer := &Response{Auth: map[string]AuthConfig{"a": {Username: "u", Password: NewSecret(canary.Password)}}}
	req := &Request{APIVersion: V1, Image: "a/b", ServiceAccountToken: NewSecret(canary.Token)}
	spoken := "with " + canary.Password + " and " + canary.Token
	for _, tt := range []struct {
		name  string
		resp  *Response
		err   error
		stage Stage
		is    error // what errors.Is finds
		want  string
	}{
		{name: "an answer", resp: answer},
		{name: "nothing at all", stage: StageExec, want: "the provider returned neither a response nor an error"},
		{name: "an error", resp: answer, err: errors.New(spoken), stage: StageExec, want: "with "},
		{name: "its own deadline", err: errJoin(spoken, context.DeadlineExceeded), stage: StageTimeout, is: context.DeadlineExceeded, want: "deadline exceeded"},
		{name: "canceled", err: errJoin(spoken, context.Canceled), stage: StageCanceled, is: context.Canceled, want: "context canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := Ask(t.Context(), "mine", ProviderFunc(func(context.Context, *Request) (*Response, error) {
				return tt.resp, tt.err
			}), req)
			if tt.stage == "" {
				if resp != tt.resp || err != nil {
					t.Errorf("got %v, %v, want the answer", resp, err)
				}
				return
			}
			var failed *ExecError
			if !errors.As(err, &failed) || resp != nil {
				t.Fatalf("got %v, %v, want an *ExecError", resp, err)
			}
			if failed.Name != "mine" || failed.Stage != tt.stage || failed.ExitCode != -1 || !strings.Contains(failed.Err.Error(), tt.want) {
				t.Errorf("got %+v, want stage %s and %q", failed, tt.stage, tt.want)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
			for _, secret := range []string{canary.Token, canary.Password} {
				if (secret == canary.Token || tt.resp != nil) && strings.Contains(err.Error(), secret) {
					t.Error("a secret stands in the error")
				}
			}
		})
	}
}

func errJoin(text string, is error) error { return errors.Join(errors.New(text), is) }

// TestAskLeavesBehind: who does not listen is not waited for.
func TestAskLeavesBehind(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := Ask(ctx, "deaf", ProviderFunc(func(context.Context, *Request) (*Response, error) {
		cancel()
		<-release
		return nil, nil
	}), &Request{APIVersion: V1, Image: "a/b"})
	var failed *ExecError
	if resp != nil || !errors.As(err, &failed) || failed.Stage != StageCanceled {
		t.Errorf("got %v, %v, want stage %s", resp, err, StageCanceled)
	}
}

// TestAskKeepsRuns: what ran an executable on behalf of a provider says where
// it failed and what was said.
func TestAskKeepsRuns(t *testing.T) {
	req := &Request{APIVersion: V1, Image: "a/b", ServiceAccountToken: NewSecret(canary.Token)}
	own := &ExecError{Name: "inner", Stage: StageTimeout, ExitCode: 7, Stderr: "said " + canary.Token, Err: errJoin("of "+canary.Token, context.DeadlineExceeded)}
	for name, err := range map[string]error{"plain": own, "wrapped": fmt.Errorf("mine: %w", own)} {
		t.Run(name, func(t *testing.T) {
			_, err := Ask(t.Context(), "outer", ProviderFunc(func(context.Context, *Request) (*Response, error) { return nil, err }), req)
			var failed *ExecError
			if !errors.As(err, &failed) {
				t.Fatalf("got %v, want an *ExecError", err)
			}
			if failed == own || failed.Name != "outer" || failed.Stage != StageTimeout || failed.ExitCode != 7 || !strings.HasPrefix(failed.Stderr, "said ") {
				t.Errorf("got %+v, want stage, exit code and standard error of the run", failed)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v is not the end of a deadline any more", err)
			}
			canary.Check(t, "error", failed.Error()+failed.Stderr)
		})
	}
}
