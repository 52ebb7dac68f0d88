// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go/logging"

	"github.com/regcred/regcred/internal/remote"
)

// newClient returns the HTTP client of one run. It is the SDK's own, since that
// alone takes AWS_CA_BUNDLE and the short times for the metadata service.
func newClient(opts Options) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithTimeout(opts.Timeout).
		WithTransportOptions(func(t *http.Transport) {
			t.Proxy = route
			t.IdleConnTimeout = idle
		})
}

// idle is for how long a connection is kept for another request of its run.
// Nobody can close what the SDK's client keeps, and in a program that asks
// again and again, 90 seconds of every run add up to its last descriptor.
const idle = time.Second

// route chooses the proxy of a request, and refuses those that a redirect
// sends elsewhere, with what was meant for the first host, or in a circle.
// (The SDK's client follows redirects with 307 and 308 to any host, and
// without end, and its transport is all that can be changed about it; a
// transport asks for the proxy first.)
func route(req *http.Request) (*url.URL, error) {
	redirects := 0
	for to := req; to.Response != nil && to.Response.Request != nil; to = to.Response.Request {
		from := to.Response.Request.URL
		if to.URL.Scheme != from.Scheme || !strings.EqualFold(to.URL.Host, from.Host) {
			return nil, redirectError(fmt.Sprintf("it redirects to another host, %q, which is not followed", to.URL.Host))
		}
		if redirects++; redirects > maxRedirects {
			return nil, redirectError("it redirects in a circle")
		}
	}
	return remote.Proxy(req)
}

const maxRedirects = 3

// redirectError says why a redirect is not followed.
type redirectError string

func (e redirectError) Error() string { return string(e) }

// newRetryer returns the SDK's own, but for a status without an error code that asks
// for patience.
func newRetryer(opts Options) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxBackoff = opts.MaxPause
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(neverRetried)}, o.Retryables...)
		o.Retryables = append(o.Retryables, retry.RetryableHTTPStatusCode{
			Codes: map[int]struct{}{http.StatusTooManyRequests: {}},
		})
	})
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

// neverRetried are errors that the SDK takes for those of a connection.
func neverRetried(err error) aws.Ternary {
	var redirect redirectError
	var answer answerError
	if errors.As(err, &redirect) || errors.As(err, &answer) {
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
