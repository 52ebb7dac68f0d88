// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Error is returned by [Client.Do] if a call fails.
type Error struct {
	Step       string
	Method     string
	Endpoint   string        // scheme, host and path
	Status     int           // HTTP status; 0 if there was no response
	Code       string        // error code from the endpoint, or ""
	RequestID  string        // request ID from the endpoint, or ""
	Attempts   int           // number of attempts
	Err        error         // the cause; nil if the status is the cause
	retryAfter time.Duration // wait time requested by the endpoint
}

// Error returns the step, the endpoint and the cause.
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

// isTemporary reports whether a retry might succeed.
func (e *Error) isTemporary() bool {
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

// UnknownCAError is returned if a server certificate is from an unknown CA.
type UnknownCAError struct {
	Store string // location of the node's trusted CAs; "" if unknown
	Err   error  // the handshake error
}

// Error returns the CA, the location of the trusted CAs, and a fix.
func (e *UnknownCAError) Error() string {
	text := "the server's certificate was issued by an untrusted CA"
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](e.Err); ok && unknown.Cert != nil {
		text = fmt.Sprintf("the server's certificate was issued by an untrusted CA, %.100q", unknown.Cert.Issuer.String())
	}
	text += "; to trust this CA, add it to the node's trust store"
	if e.Store != "" {
		text += " (" + e.Store + ")"
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns the handshake error.
func (e *UnknownCAError) Unwrap() error { return e.Err }

// handshakeTimeout is returned if the TLS handshake takes too long.
type handshakeTimeout time.Duration

func (t handshakeTimeout) Error() string {
	return fmt.Sprintf("TLS handshake timed out after %v", time.Duration(t))
}
func (handshakeTimeout) Timeout() bool   { return true }
func (handshakeTimeout) Temporary() bool { return true }

// Cause returns the cause of an HTTP client's error, or the cause of ctx if ctx is done. The
// result is never nil. It omits the URL, because the query may contain a secret. Cause also
// accepts errors of HTTP clients that do not use a [Transport].
func Cause(ctx context.Context, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		cause := describeNetworkError(op.Err)
		if unknown, ok := errors.AsType[*UnknownCAError](err); ok {
			cause = permanentError{unknown}
		} else if isHandshakeError(op.Err) {
			cause = permanentError{op.Err}
		}
		return fmt.Errorf("cannot reach the proxy: %w", cause)
	}
	if _, ok := errors.AsType[*ProxyError](err); ok {
		return err
	}
	if failed, ok := errors.AsType[*UnreachableError](err); ok {
		return failed
	}
	if errors.Is(err, errPermanent) || isHandshakeError(err) {
		return permanentError{err}
	}
	if _, ok := errors.AsType[*RedirectError](err); ok {
		return permanentError{err}
	}
	if ours, ok := proxyConnectError(err); ok {
		return ours
	}
	return describeNetworkError(err)
}

// proxyConnectError recognizes errors about a proxy from a plain [http.Transport]. It
// compares their text, because net/http has no types for them.
func proxyConnectError(err error) (error, bool) {
	if strings.HasPrefix(err.Error(), "invalid proxy address ") {
		return errProxyAddress, true // Go's error quotes the address
	}
	for status := 300; status < 600; status++ {
		if text := http.StatusText(status); text != "" && err.Error() == text {
			return &ProxyError{status}, true
		}
	}
	return nil, false
}

// isHandshakeError reports whether the TLS handshake failed permanently. Alerts from the
// server may be temporary.
func isHandshakeError(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	return errors.Is(err, http.ErrSchemeMismatch)
}

// describeNetworkError returns a short error that describes a network error.
func describeNetworkError(err error) error {
	var dns *net.DNSError
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return errors.New("no route to host")
	case errors.As(err, &dns):
		return errors.New("cannot resolve the host name")
	case errors.As(err, &op):
		return op
	case errors.As(err, &timeout) && timeout.Timeout():
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection was closed before the response was complete")
	}
	return errors.New("the response is not valid HTTP")
}

// requestID returns the ID that the endpoint's operator can use to find the request.
func requestID(h http.Header) string {
	for _, name := range []string{
		"X-Ms-Correlation-Request-Id", "X-Ms-Request-Id", "X-Amzn-Requestid", "X-Request-Id", "X-Correlation-Id",
	} {
		if id := h.Get(name); id != "" && isErrorCodeOrID(id) {
			return id
		}
	}
	return ""
}

// isErrorCodeOrID reports whether s looks like an error code or request ID rather than a
// token, which is longer.
//
// It does not use a regular expression, because compiling one takes longer than most
// requests.
func isErrorCodeOrID(s string) bool {
	return s != "" && len(s) <= 80 && !strings.ContainsFunc(s, func(r rune) bool {
		return !isWordRune(r) && r != '.' && r != ':' && r != '-'
	})
}

func isWordRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
}

// azureErrorCode returns the error code in a Microsoft Entra ID error description, such as
// "AADSTS700016".
func azureErrorCode(description string) string {
	for word := range strings.FieldsFuncSeq(description, func(r rune) bool { return !isWordRune(r) }) {
		digits, ok := strings.CutPrefix(word, "AADSTS")
		if ok && len(digits) >= 4 && len(digits) <= 9 && strings.Trim(digits, "0123456789") == "" {
			return word
		}
	}
	return ""
}

// errorCode returns the code in an error response's body: "error" of OAuth (RFC 6749,
// section 5.2), "error.status" of Google, or "errors[0].code" of a registry.
func errorCode(body []byte) string {
	var wire struct {
		Error       any    `json:"error"`
		Description string `json:"error_description"`
		Errors      []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	_ = json.Unmarshal(body, &wire) // fields with an unexpected type stay empty
	var codes []string
	switch e := wire.Error.(type) {
	case string:
		codes = append(codes, e)
	case map[string]any:
		status, _ := e["status"].(string)
		codes = append(codes, status)
	}
	codes = append(codes, azureErrorCode(wire.Description))
	if len(wire.Errors) > 0 {
		codes = append(codes, wire.Errors[0].Code)
	}
	return strings.Join(slices.DeleteFunc(codes, func(code string) bool { return !isErrorCodeOrID(code) }), ", ")
}
