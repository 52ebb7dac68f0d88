// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package remote calls the token endpoints of clouds and registries over HTTP. Calls are
// limited in time and size, and are retried if a retry may succeed. They are never redirected
// to another host, and never sent to a metadata server through a proxy.
//
//	client := remote.Client{UserAgent: "acr-credential-provider"}
//	answer, err := client.Do(ctx, remote.Call{
//		Step: "exchange the token", Method: http.MethodPost, URL: endpoint, Form: form,
//	})
//
// Errors contain the step, the endpoint, the status, the request ID, and the error code if
// the body has a known format. They contain no query, header or body, because these may
// contain secrets.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// RequestTimeout is how long a plugin may take for one request. It is shorter than
// protocol.ServeTimeout, so that the plugin's error can name the endpoint that did not
// respond.
const RequestTimeout = 45 * time.Second

// MaxBodySize limits the size of a response body in bytes.
const MaxBodySize = 1 << 20

// maxAttempts limits the number of attempts per call.
const maxAttempts = 3

// Client calls endpoints. The zero value is ready to use. A Client is safe for
// concurrent use.
type Client struct {
	Transport http.RoundTripper // nil means [NewTransport] for each call of Do
	UserAgent string

	Timeout time.Duration // per attempt; 0 means 14 s
	Backoff time.Duration // before the second attempt, doubled for the third; 0 means 250 ms
}

// Call is a request to an endpoint.
type Call struct {
	Step   string // for errors, such as "exchange the token"
	Method string // "" means POST if Form or Body is set, otherwise GET
	URL    string
	Header http.Header
	Form   url.Values // sent as application/x-www-form-urlencoded
	Body   []byte     // sent unchanged; set Content-Type in Header

	// AcceptStatuses lists the statuses of a successful response; empty means only 200.
	AcceptStatuses []int

	// RetryStatuses lists additional statuses to retry.
	RetryStatuses []int

	// RetryLonger makes six attempts in about 15 seconds, as long as the endpoint responds.
	// It is for metadata servers, which are unavailable during updates.
	RetryLonger bool
}

// Response is an endpoint's response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	URL    *url.URL // differs from the call's URL after a redirect
}

// Do sends the call and retries until it succeeds, no attempts are left, or ctx is
// done. Errors are of type [*Error].
func (c Client) Do(ctx context.Context, call Call) (*Response, error) {
	transport := c.Transport
	if transport == nil {
		own := NewTransport()
		defer own.CloseIdleConnections()
		transport = own
	}
	client := &http.Client{Transport: transport, CheckRedirect: CheckRedirect}
	for attempt := 1; ; attempt++ {
		answer, failed := c.attemptOnce(ctx, client, call)
		if failed == nil {
			return answer, nil
		}
		failed.Attempts = attempt
		again := failed.isTemporary() || failed.Err == nil && slices.Contains(call.RetryStatuses, failed.Status)
		attempts, backoff := maxAttempts, cmp.Or(max(c.Backoff, 0), 250*time.Millisecond)
		if call.RetryLonger && failed.Err == nil {
			attempts, backoff = 2*maxAttempts, 4*backoff
		}
		if attempt >= attempts || !again || ctx.Err() != nil || !Sleep(ctx, retryDelay(attempt, backoff, failed.retryAfter)) {
			return nil, failed
		}
	}
}

// attemptOnce makes one attempt.
func (c Client) attemptOnce(ctx context.Context, client *http.Client, call Call) (*Response, *Error) {
	timeout := cmp.Or(max(c.Timeout, 0), 14*time.Second)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no response within %v", timeout))
	defer cancel()
	failed := &Error{Step: call.Step, Method: call.httpMethod(), Endpoint: RedactEndpoint(call.URL)}
	req, err := call.newRequest(ctx, c.UserAgent)
	if err != nil {
		failed.Err = permanentError{errors.New("the address is not an http or https URL")}
		return nil, failed
	}
	resp, err := client.Do(req)
	if err != nil {
		failed.Err = Cause(ctx, err)
		if redirect, ok := errors.AsType[*RedirectError](err); ok {
			failed.Status = redirect.Status
		}
		return nil, failed
	}
	defer resp.Body.Close()
	body, err := readBody(resp.Body)
	switch {
	case err != nil && call.acceptsStatus(resp.StatusCode):
		failed.Status, failed.RequestID = resp.StatusCode, requestID(resp.Header)
		failed.Err = Cause(ctx, err)
		return nil, failed
	case !call.acceptsStatus(resp.StatusCode):
		failed.Status, failed.Code, failed.RequestID = resp.StatusCode, errorCode(body), requestID(resp.Header)
		failed.retryAfter, _ = RetryAfter(resp.Header, time.Now())
		return nil, failed
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: body, URL: resp.Request.URL}, nil
}

func (c Call) httpMethod() string {
	switch {
	case c.Method != "":
		return c.Method
	case c.Form != nil, c.Body != nil:
		return http.MethodPost
	}
	return http.MethodGet
}

func (c Call) acceptsStatus(status int) bool {
	if len(c.AcceptStatuses) == 0 {
		return status == http.StatusOK
	}
	return slices.Contains(c.AcceptStatuses, status)
}

func (c Call) newRequest(ctx context.Context, userAgent string) (*http.Request, error) {
	body := string(c.Body)
	if c.Form != nil {
		body = c.Form.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, c.httpMethod(), c.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if scheme := req.URL.Scheme; scheme != "http" && scheme != "https" || req.URL.Host == "" {
		return nil, errors.New("unsupported")
	}
	for key, values := range c.Header {
		req.Header[http.CanonicalHeaderKey(key)] = values
	}
	if c.Form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if userAgent != "" && req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", userAgent)
	}
	return req, nil
}

func readBody(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, MaxBodySize+1))
	if err == nil && len(body) > MaxBodySize {
		err = permanentError{fmt.Errorf("the response is longer than %d bytes", MaxBodySize)}
	}
	return body, err
}

// RedactEndpoint returns a URL without user info and query, for use in errors.
func RedactEndpoint(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
