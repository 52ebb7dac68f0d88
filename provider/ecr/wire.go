// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sso"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/regcred/regcred/internal/remote"
)

// httpClient replaces the SDK's HTTP client, which would follow redirects to other hosts and read
// responses of any length. It records the last request and its result for error messages.
type httpClient struct {
	transport    *remote.Transport
	lastExchange atomic.Pointer[exchange]
	hasFallback  atomic.Bool // there is another endpoint to try

	sessionToken         atomic.Pointer[exchange] // the last request for a metadata session token that got no response
	requiresSessionToken atomic.Bool              // the metadata service rejected a request without a session token
}

// exchange is a request and its result.
type exchange struct {
	endpoint      string // method and redacted URL
	noResponseErr error  // why there is no response, or nil
	status        int
}

// noResponseError means that a request got no response.
type noResponseError struct {
	cause     error
	retryable bool // a retry may succeed
	connected bool // a connection existed, so the request may have been sent
}

func (e *noResponseError) Error() string { return e.cause.Error() }

// errInvalidURL is returned for invalid URLs in the configuration, which the SDK does not
// validate.
var errInvalidURL = &noResponseError{cause: errors.New("the address is not an http or https URL; check AWS_ENDPOINT_URL… and endpoint_url")}

// responseError is returned for an invalid response with a successful status.
type responseError string

func (e responseError) Error() string { return "invalid response: " + string(e) }

// useCustomCAs trusts only the CAs in AWS_CA_BUNDLE if the variable is set. The SDK sets these CAs
// only on its own HTTP client, which httpClient replaces.
func (w *httpClient) useCustomCAs(client aws.HTTPClient, base *http.Transport) {
	if c, ok := client.(*awshttp.BuildableClient); ok && c.GetTransport().TLSClientConfig.RootCAs != nil {
		base.TLSClientConfig = &tls.Config{RootCAs: c.GetTransport().TLSClientConfig.RootCAs}
		w.transport.CloseIdleConnections()
		w.transport = remote.WrapTransport(base)
	}
}

// withTimeout returns a function that makes an SDK operation send its requests through w, with a
// timeout per attempt.
func (w *httpClient) withTimeout(timeout time.Duration) func(*middleware.Stack) error {
	exchange := func(ctx context.Context, in middleware.DeserializeInput, _ middleware.DeserializeHandler) (out middleware.DeserializeOutput, _ middleware.Metadata, err error) {
		out.RawResponse, err = w.roundTrip(ctx, in.Request.(*smithyhttp.Request), timeout)
		return out, middleware.Metadata{}, err
	}
	return func(stack *middleware.Stack) error {
		if err := stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("regcredResult", checkResultMiddleware), middleware.Before); err != nil {
			return err
		}
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("regcredWire", exchange), middleware.After)
	}
}

// roundTrip sends a request and reads the whole response.
func (w *httpClient) roundTrip(ctx context.Context, in *smithyhttp.Request, timeout time.Duration) (*smithyhttp.Response, error) {
	req := in.Build(ctx)
	x := exchange{endpoint: cmp.Or(req.Method, http.MethodGet) + " " + redactURL(req.URL)}
	w.lastExchange.Store(&exchange{endpoint: x.endpoint})
	defer func() {
		w.lastExchange.Store(&x)
		switch {
		case req.Method == http.MethodPut && req.URL.Path == "/latest/api/token" && x.noResponseErr != nil:
			w.sessionToken.Store(&x)
		case strings.HasPrefix(req.URL.Path, "/latest/") && x.status == http.StatusUnauthorized:
			w.requiresSessionToken.Store(true)
		}
	}()
	attempt, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("no response in time"))
	defer cancel()
	if req.Body != nil {
		defer req.Body.Close() // net/http may still be reading the body when the next attempt starts
	}
	if scheme := req.URL.Scheme; scheme != "http" && scheme != "https" || req.URL.Host == "" {
		x.noResponseErr = errInvalidURL
		return emptyResponse(), &smithyhttp.RequestSendError{Err: errInvalidURL}
	}
	connected := false
	resp, err := w.followRedirects(req.WithContext(httptrace.WithClientTrace(attempt, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	})))
	switch {
	case err == nil:
		x.status = resp.StatusCode
		return &smithyhttp.Response{Response: resp}, nil
	case ctx.Err() != nil:
		x.noResponseErr = context.Cause(ctx)
		return emptyResponse(), &smithy.CanceledError{Err: ctx.Err()}
	}
	x.noResponseErr = w.newNoResponseError(attempt, err, connected)
	return emptyResponse(), &smithyhttp.RequestSendError{Err: x.noResponseErr}
}

// emptyResponse returns an empty response, because the SDK inspects the response even
// after an error.
func emptyResponse() *smithyhttp.Response {
	return &smithyhttp.Response{Response: &http.Response{Header: http.Header{}, Body: http.NoBody}}
}

// followRedirects sends req and follows redirects that keep the method (307 and 308). The transport
// rejects redirects to other hosts.
func (w *httpClient) followRedirects(req *http.Request) (*http.Response, error) {
	client := http.Client{Transport: w.transport, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if status := next.Response.StatusCode; status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, remote.MaxBodySize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the response is incomplete: %w", err)
	case len(body) > remote.MaxBodySize:
		return nil, responseError(fmt.Sprintf("longer than %d bytes", remote.MaxBodySize))
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// newNoResponseError converts err to a noResponseError. If err is a responseError, it returns that
// instead.
func (w *httpClient) newNoResponseError(ctx context.Context, err error, connected bool) error {
	var answer responseError
	if errors.As(err, &answer) {
		return answer
	}
	cause := remote.Cause(ctx, err)
	var dns *net.DNSError
	hopeless := remote.IsPermanent(cause) || errors.As(err, &dns) && dns.IsNotFound ||
		!connected && w.hasFallback.Load() // the fallback endpoint is tried next
	return &noResponseError{cause, !hopeless, connected}
}

// redactURL returns u for error messages. It omits the path of a container credentials URL, because
// that path is a secret. It also omits the role name in a metadata path, because the metadata
// service chooses that text.
func redactURL(u *url.URL) string {
	if u.Host == "" {
		return "(not a URL)"
	}
	show := url.URL{Scheme: u.Scheme, Host: u.Host}
	if strings.HasPrefix(u.Path, "/latest/") {
		show.Path = u.Path
		if before, _, found := strings.Cut(u.Path, iamRolesPath); found {
			show.Path = before + iamRolesPath
		}
	}
	return show.String()
}

const iamRolesPath = "/iam/security-credentials/"

// checkResultMiddleware rejects responses that make the SDK panic, for example JSON null as
// container credentials. The SDK reads credentials in its own goroutine, where a panic would end
// the process.
func checkResultMiddleware(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (out middleware.DeserializeOutput, metadata middleware.Metadata, err error) {
	defer func() {
		if recover() != nil {
			err = responseError("cannot parse it")
		}
	}()
	out, metadata, err = next.HandleDeserialize(ctx, in)
	if err != nil {
		return out, metadata, err
	}
	if result := reflect.ValueOf(out.Result); result.Kind() == reflect.Pointer && result.IsNil() {
		return out, metadata, responseError("empty")
	}
	if role, ok := out.Result.(*sso.GetRoleCredentialsOutput); ok && role.RoleCredentials == nil {
		return out, metadata, responseError("no credentials")
	}
	return out, metadata, nil
}
