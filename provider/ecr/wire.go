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

// wire is the way to every endpoint, in place of the SDK's HTTP client: the
// SDK's follows redirects to other hosts, and reads answers of any length. It
// remembers the last exchange for errors.
type wire struct {
	transport *remote.Transport
	last      atomic.Pointer[exchange]
	fallback  atomic.Bool // there is another endpoint than the one that is asked
}

// exchange is one request and what came of it.
type exchange struct {
	endpoint string // with the method
	lost     error  // why there is no answer; nil if there is one
	status   int
}

// lostError is why an exchange came to nothing.
type lostError struct {
	cause     error
	again     bool // it may help to ask again
	connected bool // the request may have been sent
}

func (e *lostError) Error() string { return e.cause.Error() }

// errNoURL is for addresses of the configuration, which the SDK takes as they are.
var errNoURL = &lostError{cause: errors.New("the address is not an http or https URL; check AWS_ENDPOINT_URL… and endpoint_url")}

// answerError is what is wrong with an answer that had a good status.
type answerError string

func (e answerError) Error() string { return "invalid response: " + string(e) }

// trust makes the authorities of AWS_CA_BUNDLE, if there are any, the only
// ones. The SDK puts them into the client that it would use.
func (w *wire) trust(client aws.HTTPClient, base *http.Transport) {
	if c, ok := client.(*awshttp.BuildableClient); ok && c.GetTransport().TLSClientConfig.RootCAs != nil {
		base.TLSClientConfig = &tls.Config{RootCAs: c.GetTransport().TLSClientConfig.RootCAs}
		w.transport.CloseIdleConnections()
		w.transport = remote.Wrap(base)
	}
}

// within returns what adds w to the steps of one of the SDK's operations, with
// a time for one attempt.
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

// exchange sends a request and reads the answer whole.
func (w *wire) exchange(ctx context.Context, in *smithyhttp.Request, timeout time.Duration) (*smithyhttp.Response, error) {
	req := in.Build(ctx)
	x := exchange{endpoint: cmp.Or(req.Method, http.MethodGet) + " " + shown(req.URL)}
	w.last.Store(&exchange{endpoint: x.endpoint})
	defer func() { w.last.Store(&x) }()
	attempt, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("no response in time"))
	defer cancel()
	if req.Body != nil {
		defer req.Body.Close() // the next attempt reads it again, and package http may not have ended
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

// noResponse is what the SDK looks into all the same.
func noResponse() *smithyhttp.Response {
	return &smithyhttp.Response{Response: &http.Response{Header: http.Header{}, Body: http.NoBody}}
}

// send follows redirects of one host alone, which the transport sees to, and
// only those that say that the method stays.
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
		return nil, answerError(fmt.Sprintf("longer than %d bytes", remote.MaxBody))
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// lost says why there was no answer.
func (w *wire) lost(ctx context.Context, err error, connected bool) error {
	var answer answerError
	if errors.As(err, &answer) {
		return answer
	}
	cause := remote.Cause(ctx, err)
	var dns *net.DNSError
	hopeless := remote.IsPermanent(cause) || errors.As(err, &dns) && dns.IsNotFound ||
		!connected && w.fallback.Load() // it is asked elsewhere
	return &lostError{cause, !hopeless, connected}
}

// shown is what errors say of an address. The path of container credentials
// lets whoever knows it have them; that of metadata says what was asked for,
// but for the role, for which anything may stand that the service said.
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

// checkResult refuses what the SDK trips over: it reads credentials in a
// goroutine of its own, where a panic ends the process. Container credentials
// that are the JSON value null are such a case, as an answer and as an error.
func checkResult(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (out middleware.DeserializeOutput, metadata middleware.Metadata, err error) {
	defer func() {
		if recover() != nil {
			err = answerError("cannot parse it")
		}
	}()
	out, metadata, err = next.HandleDeserialize(ctx, in)
	if err != nil {
		return out, metadata, err
	}
	if result := reflect.ValueOf(out.Result); result.Kind() == reflect.Pointer && result.IsNil() {
		return out, metadata, answerError("empty")
	}
	if role, ok := out.Result.(*sso.GetRoleCredentialsOutput); ok && role.RoleCredentials == nil {
		return out, metadata, answerError("no credentials")
	}
	return out, metadata, nil
}
