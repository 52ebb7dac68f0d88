// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/sso"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/regcred/regcred/internal/remote"
)

// answerError is what is wrong with an answer that had a good status.
type answerError string

func (e answerError) Error() string { return "the answer is unusable: " + string(e) }

// wire stands between the SDK and every endpoint that it asks. It remembers
// the last one for errors, and what came of it, and bounds what comes back;
// the SDK reads answers of any length.
type wire struct {
	asked  atomic.Pointer[string]
	failed atomic.Pointer[error]
}

// install adds w to the steps of one of the SDK's operations.
func (w *wire) install(stack *middleware.Stack) error {
	if err := stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("regcredResult", checkResult), middleware.Before); err != nil {
		return err
	}
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("regcredWire", w.exchange), middleware.After)
}

// endpoint is the last one that was asked, with the method; "" if none was.
func (w *wire) endpoint() string {
	if asked := w.asked.Load(); asked != nil {
		return *asked
	}
	return ""
}

// failure is why the last exchange was none, or the status of its answer if
// that is an error; nil otherwise.
func (w *wire) failure() error {
	if failed := w.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

func (w *wire) forget() {
	w.asked.Store(nil)
	w.failed.Store(nil)
}

// exchange is one request and its answer, next to the network.
func (w *wire) exchange(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	if req, ok := in.Request.(*smithyhttp.Request); ok && req.URL != nil {
		w.asked.Store(new(cmp.Or(req.Method, http.MethodGet) + " " + shown(req.URL)))
	}
	w.failed.Store(nil)
	out, metadata, err := next.HandleDeserialize(ctx, in)
	resp, ok := out.RawResponse.(*smithyhttp.Response)
	if err == nil && ok && resp.Body != nil {
		var body []byte
		body, err = readBody(resp.Body)
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	switch {
	case err != nil:
		w.failed.Store(&err)
	case ok && resp.StatusCode >= 300:
		w.failed.Store(new(error(&smithyhttp.ResponseError{Response: resp, Err: errors.New("refused")})))
	}
	return out, metadata, err
}

// shown is what errors say of an address. The path of container credentials
// lets whoever knows it have them; that of metadata says what was asked for,
// but for the role, for which anything may stand that the service said.
func shown(u *url.URL) string {
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

// readBody reads an answer whole.
func readBody(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, remote.MaxBody+1))
	switch {
	case err != nil:
		// As an error of the connection, it is worth another attempt.
		return nil, &smithyhttp.RequestSendError{Err: fmt.Errorf("the answer ends too early: %w", err)}
	case len(body) > remote.MaxBody:
		return nil, answerError(fmt.Sprintf("it is longer than %d bytes", remote.MaxBody))
	}
	return body, nil
}

// checkResult refuses what the SDK trips over: it reads credentials in a
// goroutine of its own, where a panic ends the process. Container credentials
// that are the JSON value null are such a case, as an answer and as an error.
func checkResult(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (out middleware.DeserializeOutput, metadata middleware.Metadata, err error) {
	defer func() {
		if recover() != nil {
			err = answerError("it cannot be read")
		}
	}()
	out, metadata, err = next.HandleDeserialize(ctx, in)
	if err != nil {
		return out, metadata, err
	}
	if result := reflect.ValueOf(out.Result); result.Kind() == reflect.Pointer && result.IsNil() {
		return out, metadata, answerError("it is empty")
	}
	if role, ok := out.Result.(*sso.GetRoleCredentialsOutput); ok && role.RoleCredentials == nil {
		return out, metadata, answerError("it has no credentials")
	}
	return out, metadata, nil
}
