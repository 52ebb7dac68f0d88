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

// wire replaces the SDK's HTTP client, which would follow redirects to other hosts and
// read responses of any length. It records the last exchange for errors.
type wire struct {
	transport *remote.Transport
	last      atomic.Pointer[exchange]
	fallback  atomic.Bool // there is another endpoint to try
}

// exchange is a request and its result.
type exchange struct {
	endpoint string // with the method
	lost     error  // why there is no response, or nil
	status   int
}

// lostError is returned for a request without a response.
type lostError struct {
	cause     error
	again     bool // a retry may succeed
	connected bool // the request may have been sent
}

func (e *lostError) Error() string { return e.cause.Error() }

// errNoURL is returned for invalid URLs in the configuration, which the SDK does not
// validate.
var errNoURL = &lostError{cause: errors.New("the address is not an http or https URL; check AWS_ENDPOINT_URL… and endpoint_url")}

// responseError is returned for an invalid response with a successful status.
type responseError string

func (e responseError) Error() string { return "invalid response: " + string(e) }

// trust trusts only the CAs in AWS_CA_BUNDLE if the variable is set. The SDK would add
// them to the client that wire replaces.
func (w *wire) trust(client aws.HTTPClient, base *http.Transport) {
	if c, ok := client.(*awshttp.BuildableClient); ok && c.GetTransport().TLSClientConfig.RootCAs != nil {
		base.TLSClientConfig = &tls.Config{RootCAs: c.GetTransport().TLSClientConfig.RootCAs}
		w.transport.CloseIdleConnections()
		w.transport = remote.Wrap(base)
	}
}

// within returns a function that adds w to an SDK operation, with a timeout per
// attempt.
func (w *wire) within(timeout time.Duration) func(*middleware.Stack) error {
	exchange := func(ctx context.Context, in middleware.DeserializeInput, _ middleware.DeserializeHandler) (out middleware.DeserializeOutput, _ middleware.Metadata, err error) {
		out.RawResponse, err = w.exchange(ctx, in.Request.(*smithyhttp.Request), timeout)
		return out, middleware.Metadata{}, err
	}
	return func(stack *middleware.Stack) error {
		if err := stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("regcredResult", checkResult), middleware.Before); err != nil {
			return err
		}
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("regcredWire", exchange), middleware.After)
	}
}

// exchange sends a request and reads the whole response.
func (w *wire) exchange(ctx context.Context, in *smithyhttp.Request, timeout time.Duration) (*smithyhttp.Response, error) {
	req := in.Build(ctx)
	x := exchange{endpoint: cmp.Or(req.Method, http.MethodGet) + " " + shown(req.URL)}
	w.last.Store(&exchange{endpoint: x.endpoint})
	defer func() { w.last.Store(&x) }()
	attempt, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("no response in time"))
	defer cancel()
	if req.Body != nil {
		defer req.Body.Close() // net/http may still be reading the body when the next attempt starts
	}
	if scheme := req.URL.Scheme; scheme != "http" && scheme != "https" || req.URL.Host == "" {
		x.lost = errNoURL
		return noResponse(), &smithyhttp.RequestSendError{Err: errNoURL}
	}
	connected := false
	resp, err := w.send(req.WithContext(httptrace.WithClientTrace(attempt, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	})))
	switch {
	case err == nil:
		x.status = resp.StatusCode
		return &smithyhttp.Response{Response: resp}, nil
	case ctx.Err() != nil:
		x.lost = context.Cause(ctx)
		return noResponse(), &smithy.CanceledError{Err: ctx.Err()}
	}
	x.lost = w.lost(attempt, err, connected)
	return noResponse(), &smithyhttp.RequestSendError{Err: x.lost}
}

// noResponse returns an empty response, because the SDK inspects the response even
// after an error.
func noResponse() *smithyhttp.Response {
	return &smithyhttp.Response{Response: &http.Response{Header: http.Header{}, Body: http.NoBody}}
}

// send follows redirects that keep the method. The transport rejects redirects to other
// hosts.
func (w *wire) send(req *http.Request) (*http.Response, error) {
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
	body, err := io.ReadAll(io.LimitReader(resp.Body, remote.MaxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the response is incomplete: %w", err)
	case len(body) > remote.MaxBody:
		return nil, responseError(fmt.Sprintf("longer than %d bytes", remote.MaxBody))
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// lost returns the error of a request without a response.
func (w *wire) lost(ctx context.Context, err error, connected bool) error {
	var answer responseError
	if errors.As(err, &answer) {
		return answer
	}
	cause := remote.Cause(ctx, err)
	var dns *net.DNSError
	hopeless := remote.IsPermanent(cause) || errors.As(err, &dns) && dns.IsNotFound ||
		!connected && w.fallback.Load() // the fallback endpoint is tried next
	return &lostError{cause, !hopeless, connected}
}

// shown returns a URL for errors. It omits the path of container credentials, because
// the path is a secret. It also omits the role in metadata paths, because the service
// chooses that text.
func shown(u *url.URL) string {
	if u.Host == "" {
		return "(not a URL)"
	}
	show := url.URL{Scheme: u.Scheme, Host: u.Host}
	if strings.HasPrefix(u.Path, "/latest/") {
		show.Path = u.Path
		if before, _, found := strings.Cut(u.Path, rolesPath); found {
			show.Path = before + rolesPath
		}
	}
	return show.String()
}

const rolesPath = "/iam/security-credentials/"

// checkResult rejects responses that make the SDK panic. The SDK reads credentials in
// its own goroutine, where a panic would end the process. One example is JSON null as
// container credentials, either as a result or as an error.
func checkResult(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (out middleware.DeserializeOutput, metadata middleware.Metadata, err error) {
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
