// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/kube"
)

// TestTransportThatMisbehaves verifies calls through a broken transport of the program. A hanging
// transport does not delay a call beyond its context, and a panic does not end the process.
func TestTransportThatMisbehaves(t *testing.T) {
	for name, tt := range map[string]struct {
		behave func(forever chan struct{})
		says   string
		hangs  bool
	}{
		"hangs":              {func(forever chan struct{}) { <-forever }, "context deadline exceeded", true},
		"panics":             {func(chan struct{}) { panic(canary.TokenSecret) }, "send: panic in ", false},
		"ends its goroutine": {func(chan struct{}) { runtime.Goexit() }, "send: it called runtime.Goexit", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				forever := make(chan struct{})
				defer close(forever)
				cfg := &rest.Config{Host: "https://127.0.0.1:1"}
				cfg.Wrap(func(http.RoundTripper) http.RoundTripper {
					return roundTripper(func(*http.Request) (*http.Response, error) { tt.behave(forever); return nil, errors.New("not reached") })
				})
				c := must.Get(kube.New(cfg, kube.Options{}))(t)
				for what, ask := range clientCalls(c) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					begin := time.Now()
					e := wantError(t, ask(ctx), tt.says)
					if took := time.Since(begin); tt.hangs != (took == time.Second) || !e.IsUnavailable() {
						t.Errorf("%s: after %v: %v", what, took, e)
					}
					canary.AssertAbsent(t, what, e.Error())
					cancel()
				}
				if tt.hangs {
					time.Sleep(time.Minute) // until the shared calls have timed out
				}
			})
		})
	}
}
