// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Error says why an endpoint gave no answer.
type Error struct {
	Step       string
	Method     string
	Endpoint   string        // scheme, host and path
	Status     int           // 0 if there was no answer at all
	Code       string        // the endpoint's own error code; "" if it gave none
	RequestID  string        // the endpoint's own name for the request; "" if it gave none
	Attempts   int           // how often it was asked
	Err        error         // why there was no answer, or why it is none; nil if the status says it
	retryAfter time.Duration // how long the endpoint asks to wait
}

// Error names the step, the endpoint and what it said.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %s: ", e.Step, e.Method, e.Endpoint)
	switch {
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	default:
		fmt.Fprintf(&b, "status %d %s", e.Status, http.StatusText(e.Status))
		if e.Code != "" {
			fmt.Fprintf(&b, " (%s)", e.Code)
		}
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, ", %d times", e.Attempts)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " [request id %s]", e.RequestID)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// temporary reports whether asking again may help.
func (e *Error) temporary() bool {
	if e.Err != nil {
		return !errors.Is(e.Err, errPermanent)
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

var errPermanent = errors.New("asking again does not help")

// permanent is an error that errors.Is takes for errPermanent.
type permanent struct{ error }

func (permanent) Is(target error) bool { return target == errPermanent }

// Cause is what an HTTP client's error says, without the address, which may
// hold a secret in its query, and with the cause of ctx's end if that is why.
// It is never nil. Clients that are not this package's may use it too.
func Cause(ctx context.Context, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errPermanent):
		return err
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return fmt.Errorf("the proxy cannot be reached: %w", networkCause(op.Err))
	case strings.HasPrefix(err.Error(), "invalid proxy address"):
		// Go quotes the address, which has the proxy's password.
		return permanent{errors.New("the address of the proxy is not a URL: look at HTTPS_PROXY and HTTP_PROXY")}
	case isProxyRefusal(err):
		return fmt.Errorf("the proxy refuses to connect: %w", err)
	case strings.HasPrefix(err.Error(), "tls: "), strings.HasPrefix(err.Error(), "x509: "),
		strings.HasPrefix(err.Error(), "http: server gave HTTP response to HTTPS client"):
		return permanent{err}
	case strings.HasPrefix(err.Error(), "it redirects "):
		return permanent{err}
	}
	return networkCause(err)
}

// networkCause is why there was no connection, or no answer on it.
func networkCause(err error) error {
	var dns *net.DNSError
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return errors.New("there is no route to the host")
	case errors.As(err, &dns):
		return errors.New("the host name cannot be resolved")
	case errors.As(err, &op):
		return op
	case errors.As(err, &timeout) && timeout.Timeout():
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection ended before the answer did")
	}
	return errors.New("the answer is not valid HTTP")
}

// isProxyRefusal recognises what a proxy said in place of connecting, which Go
// gives as the text of its status.
func isProxyRefusal(err error) bool {
	for status := 300; status < 600; status++ {
		if text := http.StatusText(status); text != "" && err.Error() == text {
			return true
		}
	}
	return false
}

// requestID is the name under which the endpoint's operator can find a request.
func requestID(h http.Header) string {
	for _, name := range []string{
		"X-Ms-Correlation-Request-Id", "X-Ms-Request-Id", "X-Amzn-Requestid", "X-Request-Id", "X-Correlation-Id",
	} {
		if id := h.Get(name); id != "" && isHarmless(id) {
			return id
		}
	}
	return ""
}

// isHarmless reports whether s looks like an error code or a request id. A
// token is longer.
//
// There are no regular expressions here: to compile one takes longer than most
// plugins need for an answer in all.
func isHarmless(s string) bool {
	return s != "" && len(s) <= 80 && !strings.ContainsFunc(s, func(r rune) bool {
		return !isWord(r) && r != '.' && r != ':' && r != '-'
	})
}

func isWord(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
}

// azureCode finds the number that Microsoft Entra ID puts into its
// descriptions: "AADSTS700016".
func azureCode(description string) string {
	for word := range strings.FieldsFuncSeq(description, func(r rune) bool { return !isWord(r) }) {
		digits, ok := strings.CutPrefix(word, "AADSTS")
		if ok && len(digits) >= 4 && len(digits) <= 9 && strings.Trim(digits, "0123456789") == "" {
			return word
		}
	}
	return ""
}

// Refused fills in what an answer says that is none: its status, its code and
// its request id.
func (e *Error) Refused(status int, header http.Header, body []byte) {
	e.Status, e.Code, e.RequestID = status, errorCode(body), requestID(header)
}

// errorCode finds the code in the body of an error: "error" of OAuth (RFC
// 6749, section 5.2), "error.status" of Google, "errors[0].code" of a registry.
func errorCode(body []byte) string {
	var oauth struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	var google struct {
		Error struct {
			Status string `json:"status"`
		} `json:"error"`
	}
	var registry struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	var codes []string
	if json.Unmarshal(body, &oauth) == nil {
		codes = append(codes, oauth.Error, azureCode(oauth.Description))
	}
	if json.Unmarshal(body, &google) == nil {
		codes = append(codes, google.Error.Status)
	}
	if json.Unmarshal(body, &registry) == nil && len(registry.Errors) > 0 {
		codes = append(codes, registry.Errors[0].Code)
	}
	var shown []string
	for _, code := range codes {
		if isHarmless(code) {
			shown = append(shown, code)
		}
	}
	return strings.Join(shown, ", ")
}
