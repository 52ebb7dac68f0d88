// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/remote"
)

// Failure describes why a call failed. It contains no secrets, because it keeps only
// the reason and message of the response's Status.
type Failure struct {
	Code       int           // the HTTP status; 0 if there was no response
	Reason     string        // reason of the Status; "" if there was none
	Message    string        // message of the Status, on one line
	RetryAfter time.Duration // set if the API server has not started to process the request

	Err error // why there was no response; nil if there was one

	connectionLost bool // the connection was closed before the response was complete
}

// statusFailure returns the failure for a response with an error status.
func statusFailure(resp *http.Response, body []byte) *Failure {
	f := &Failure{Code: resp.StatusCode, RetryAfter: retryAfter(resp)}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		f.Reason, f.Message = string(status.Reason), CleanMessage(status.Message)
	}
	return f
}

// retryAfter returns a response's Retry-After. Zero is treated as one second.
func retryAfter(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < 500 {
		return 0
	}
	wait, asked := remote.RetryAfter(resp.Header, time.Now())
	if !asked {
		return 0
	}
	return max(wait, time.Second)
}

// noResponseFailure returns the failure for a call without a complete response.
func noResponseFailure(ctx context.Context, err error) *Failure {
	return &Failure{Err: redactedCause(ctx, err), connectionLost: isConnectionLost(err)}
}

// redactedCause returns why there is no complete response. The error contains no data that
// was sent or received.
func redactedCause(ctx context.Context, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := err.Error()
	var broken *await.CallError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &broken):
		return broken
	case strings.HasPrefix(text, "getting credentials: "), strings.HasPrefix(text, "failed to read token file"):
		return missingCredentialError(text)
	case isConnectionLost(err):
		return errors.New("the connection was closed before the response was complete")
	}
	return remote.Cause(ctx, err)
}

// isConnectionLost reports whether the connection or its stream was closed before the
// response was complete. It cannot use HTTP/2's error types, because net/http does not
// export them.
func isConnectionLost(err error) bool {
	text := err.Error()
	return utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(text, "stream error: ") || strings.Contains(text, "GOAWAY")
}

// missingCredentialError shortens client-go's error for a missing credential. It keeps
// only the first line, because the rest is advice, and removes a program's output,
// which a decoder quotes.
func missingCredentialError(text string) error {
	text, _, _ = strings.Cut(text, "\n")
	if before, _, ok := strings.Cut(text, "decoding stdout: "); ok {
		text = before + "the program's output is not an ExecCredential"
	}
	return errors.New(CleanMessage(text))
}

const maxMessageSize = 1000

// CleanMessage returns an API server's message as a single printable line.
func CleanMessage(s string) string {
	if len(s) > maxMessageSize {
		s = strings.ToValidUTF8(s[:maxMessageSize], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
