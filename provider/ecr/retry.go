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

// retryer is the SDK's own, but for a status without an error code that asks
// for patience, and for what does not become better.
type retryer struct {
	aws.RetryerV2
	attempts *int // known only after the SDK has made its first clients; 0 is the SDK's own number
}

func newRetryer(opts Options, attempts *int) retryer {
	return retryer{retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxBackoff = opts.MaxPause
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(neverRetried)}, o.Retryables...)
		o.Retryables = append(o.Retryables, retry.RetryableHTTPStatusCode{
			Codes: map[int]struct{}{http.StatusTooManyRequests: {}},
		})
	}), attempts}
}

// MaxAttempts is how often an endpoint is asked.
func (r retryer) MaxAttempts() int {
	if *r.attempts > 0 {
		return *r.attempts
	}
	return r.RetryerV2.MaxAttempts()
}

// maxAttempts returns AWS_MAX_ATTEMPTS or the profile's max_attempts, for which
// the SDK does not look beside a retryer that is given; 0 if neither is set.
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

// neverRetried are errors that the SDK would ask again after.
func neverRetried(err error) aws.Ternary {
	var answer answerError
	var lost *lostError
	if errors.As(err, &answer) || errors.As(err, &lost) && !lost.again {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}

// sdkLogger passes on what the SDK would print on standard error.
func sdkLogger(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(class logging.Classification, format string, v ...any) {
		log.Debug("AWS SDK", "level", string(class), "text", fmt.Sprintf(format, v...))
	})
}
