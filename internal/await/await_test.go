// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package await_test

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/canary"
)

func TestResult(t *testing.T) {
	own := errors.New("its own")
	for name, tt := range map[string]struct {
		f    func() (int, error)
		want string // prefix of the error
	}{
		"answer":          {func() (int, error) { return 7, nil }, ""},
		"error":           {func() (int, error) { return 7, own }, "its own"},
		"panic":           {func() (int, error) { panic("with " + canary.PasswordSecret) }, "ask: panic in github.com/regcred/regcred/internal/await_test.TestResult.func"},
		"panic of nil":    {func() (int, error) { panic(nil) }, "ask: panic in github.com/regcred/regcred/internal/await_test.TestResult.func"},
		"run-time panic":  {func() (int, error) { return []int{7}[len(t.Name()):][0], nil }, "ask: panic in github.com/regcred/regcred/internal/await_test.TestResult.func"},
		"nil error":       {func() (int, error) { return 7, (*fs.PathError)(nil) }, "ask: panic in io/fs.(*PathError).Error (fs.go:"},
		"ended goroutine": {func() (int, error) { runtime.Goexit(); return 7, nil }, "ask: it called runtime.Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := await.Call(t.Context(), "ask", tt.f)
			if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if err != nil {
				canary.AssertAbsent(t, "error", err.Error())
			}
			if (err == nil || err == own) != (got == 7) {
				t.Errorf("got %d with error %v", got, err)
			}
		})
	}
}

func TestResultOfCallThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		begin := time.Now()
		got, err := await.Call(ctx, "ask", func() (int, error) { time.Sleep(time.Minute); return 7, nil })
		defer time.Sleep(time.Minute) // so that the goroutine of the call ends
		if got != 0 || !errors.Is(err, why) || !errors.Is(err, context.DeadlineExceeded) || err.Error() != "ask: enough" || time.Since(begin) != time.Second {
			t.Errorf("%d, %v after %v; want nothing, and the cause of the end, after 1s", got, err, time.Since(begin))
		}
	})
}
