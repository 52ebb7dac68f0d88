// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"
)

// healthCheckTimeout is the timeout of a health check.
const healthCheckTimeout = 5 * time.Second

// checkHealth checks that a kubelet's health endpoint responds with 200. It uses no proxy and
// follows no redirect.
func checkHealth(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, healthCheckTimeout, timeoutError("timed out after "+healthCheckTimeout.String()))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return responseError(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	return nil
}

// responseError returns why there was no response.
func responseError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no response: %w", context.Cause(ctx))
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	if errors.Is(err, io.EOF) {
		return errors.New("connection closed without a response")
	}
	return err
}
