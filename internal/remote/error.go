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
	"strconv"
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

// AuthorityError says that the node does not know who vouches for a server.
type AuthorityError struct {
	Store string // where the node's authorities are; "" is not known
	Err   error  // of the handshake
}

// Error says whose the authority is, where it was looked for, and what to do.
func (e *AuthorityError) Error() string {
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

// Unwrap returns the error of the handshake.
func (e *AuthorityError) Unwrap() error { return e.Err }

// handshakeTimeout says that a server took too long before the first request.
type handshakeTimeout time.Duration

func (t handshakeTimeout) Error() string {
	return fmt.Sprintf("TLS handshake timed out after %v", time.Duration(t))
}
func (handshakeTimeout) Timeout() bool   { return true }
func (handshakeTimeout) Temporary() bool { return true }

// Cause is what an HTTP client's error says, without the address, which may
// hold a secret in its query, and with the cause of ctx's end if that is why.
// It is never nil. Clients that are not this package's may use it too.
func Cause(ctx context.Context, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		cause := networkCause(op.Err)
		if unknown, ok := errors.AsType[*AuthorityError](err); ok {
			cause = permanent{unknown}
		} else if isHandshake(op.Err) {
			cause = permanent{op.Err}
		}
		return fmt.Errorf("cannot reach the proxy: %w", cause)
	}
	if _, ok := errors.AsType[*ProxyError](err); ok {
		return err
	}
	if failed, ok := errors.AsType[*NoWayError](err); ok {
		return failed
	}
	if errors.Is(err, errPermanent) || isHandshake(err) {
		return permanent{err}
	}
	if _, ok := errors.AsType[*RedirectError](err); ok {
		return permanent{err}
	}
	if ours, ok := foreignProxy(err); ok {
		return ours
	}
	return networkCause(err)
}

// foreignProxy is what a transport that is not of this package says of its
// proxy: package http has no types for that.
func foreignProxy(err error) (error, bool) {
	if strings.HasPrefix(err.Error(), "invalid proxy address ") {
		return errProxyAddress, true // without the address, which Go quotes
	}
	for status := 300; status < 600; status++ {
		if text := http.StatusText(status); text != "" && err.Error() == text {
			return &ProxyError{status}, true
		}
	}
	return nil, false
}

// isHandshake reports whether TLS itself came to nothing, so that it would
// again. Alerts of the other side are not among them: some pass.
func isHandshake(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	return errors.Is(err, http.ErrSchemeMismatch)
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

// statusText is the text of a status, or its number if it has none.
func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return text
	}
	return "status " + strconv.Itoa(status)
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
