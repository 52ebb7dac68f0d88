// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Failure is why a call did not succeed. It holds no secret: of an answer it has the
// reason and message of its Status alone.
type Failure struct {
	Code       int           // the HTTP status; 0 if there was no answer
	Reason     string        // that of the Status; "" if there was none
	Message    string        // the API server's own words, in one line
	RetryAfter time.Duration // for how long it asks to wait, as it does when it has not begun to serve a request

	Err error // why there was no answer; nil if there was

	brokeOff bool // the connection was closed before the response was complete
}

// Refused is the failure of an answer that is none of success.
func Refused(resp *http.Response, body []byte) *Failure {
	f := &Failure{Code: resp.StatusCode, RetryAfter: retryAfter(resp)}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		f.Reason, f.Message = string(status.Reason), Clean(status.Message)
	}
	return f
}

// retryAfter is for how long the API server asks to wait. A wait of zero is taken for
// a second.
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

// NoAnswer is the failure of a call that broke off.
func NoAnswer(ctx context.Context, err error) *Failure {
	return &Failure{Err: cause(ctx, err), brokeOff: brokeOff(err)}
}

// TimeoutError is why a call that took too long has ended.
func TimeoutError(after time.Duration) error {
	return fmt.Errorf("timed out after %v: %w", after, context.DeadlineExceeded)
}

// cause is why there is no answer, without anything that was sent or received.
func cause(ctx context.Context, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := err.Error()
	var broken *await.Broken
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &broken):
		return broken
	case strings.HasPrefix(text, "getting credentials: "), strings.HasPrefix(text, "failed to read token file"):
		return noCredentials(text)
	case brokeOff(err):
		return errors.New("the connection was closed before the response was complete")
	}
	return remote.Cause(ctx, err)
}

// brokeOff reports whether a connection, or a stream of it, ended before the
// answer did. The errors of HTTP/2 have no types outside net/http.
func brokeOff(err error) bool {
	text := err.Error()
	return utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(text, "stream error: ") || strings.Contains(text, "GOAWAY")
}

// noCredentials is client-go's error of a credential that cannot be had: its
// first line, since advice follows, without what a program wrote, which a
// decoder quotes.
func noCredentials(text string) error {
	text, _, _ = strings.Cut(text, "\n")
	if before, _, ok := strings.Cut(text, "decoding stdout: "); ok {
		text = before + "the program's output is not an ExecCredential"
	}
	return errors.New(Clean(text))
}

// maxMessage bounds what is shown of the API server's words, in bytes.
const maxMessage = 1000

// Clean makes the API server's words fit for one line of a log.
func Clean(s string) string {
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
