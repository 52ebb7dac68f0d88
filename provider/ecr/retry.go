// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/logging"
)

// retryer is the SDK's standard retryer with two changes. It does not retry permanent errors, and
// it retries status 429 even without an error code.
type retryer struct {
	aws.RetryerV2
	attempts *int // set after the SDK has created its first clients; 0 means the SDK's default
}

func newRetryer(opts Options, attempts *int) retryer {
	return retryer{retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxBackoff = opts.MaxPause
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(isRetryable)}, o.Retryables...)
		o.Retryables = append(o.Retryables, retry.RetryableHTTPStatusCode{
			Codes: map[int]struct{}{http.StatusTooManyRequests: {}},
		})
	}), attempts}
}

// MaxAttempts returns the maximum number of attempts per endpoint.
func (r retryer) MaxAttempts() int {
	if *r.attempts > 0 {
		return *r.attempts
	}
	return r.RetryerV2.MaxAttempts()
}

// maxAttempts returns AWS_MAX_ATTEMPTS or the profile's max_attempts, or 0 if neither
// is set. The SDK ignores these settings if a retryer is set.
func maxAttempts(ctx context.Context, sources []any) int {
	for _, source := range sources {
		if s, ok := source.(interface {
			GetRetryMaxAttempts(context.Context) (int, bool, error)
		}); ok {
			if n, found, err := s.GetRetryMaxAttempts(ctx); found && err == nil {
				return n
			}
		}
	}
	return 0
}

// isRetryable returns false for permanent errors, which the SDK would retry. The SDK decides about
// all other errors.
func isRetryable(err error) aws.Ternary {
	var answer responseError
	var lost *noResponseError
	if errors.As(err, &answer) || errors.As(err, &lost) && !lost.retryable {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}

// sdkLogger receives messages that the SDK would otherwise print to standard error.
func sdkLogger(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(class logging.Classification, format string, v ...any) {
		log.Debug("AWS SDK", "level", string(class), "text", fmt.Sprintf(format, v...))
	})
}
