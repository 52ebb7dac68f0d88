// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/kube"
)

const (
	callTimeout = 10 * time.Second // of one call, repetitions included
	maxObject   = 4 << 20          // bytes of an answer
	maxPage     = 64 << 20         // bytes of one page of a list: a node's object has its images
	maxMessage  = 1000             // bytes that are shown of the API server's words
	atOnce      = 16               // logs that are read at a time
)

// Client asks an API server about the fleet. It is safe for concurrent use.
type Client struct {
	http *http.Client
	base *url.URL
}

// New makes a Client of what [kube.Config] returns. It does not call the API server.
func New(cfg *rest.Config) (*Client, error) {
	if cfg == nil {
		return nil, errors.New("client of the API server: there is no configuration")
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil { // which quotes a password that may be in the address
		return nil, errors.New("client of the API server: its address is neither a URL nor host:port")
	}
	base.User = nil
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of the API server at %s: %w", base, err)
	}
	// A redirect would take the credentials, which client-go adds to each request, to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{http: &http.Client{Transport: transport, CheckRedirect: stay}, base: base}, nil
}

// URL is the address of the API server.
func (c *Client) URL() string { return c.base.String() }

// call is one question to the API server, in the words of its permissions.
type call struct {
	verb            string // get, list, patch
	resource        string // in the plural, with the subresource
	group           string // "" is the core group
	namespace, name string // "" is all
	query           url.Values
	patch           []byte // a merge patch
	most            int64  // bytes of the answer; 0 means maxObject
}

// path is the call's, below the base address.
func (q *call) path() ([]string, error) {
	path := []string{"api", "v1"}
	if q.group != "" {
		path = []string{"apis", q.group, "v1"}
	}
	if q.namespace != "" {
		path = append(path, "namespaces", q.namespace)
	}
	resource, sub, _ := strings.Cut(q.resource, "/")
	path = append(path, resource)
	if q.name != "" {
		path = append(path, q.name)
	}
	if sub != "" {
		path = append(path, sub)
	}
	for _, s := range path {
		if s == "." || s == ".." || len(s) > 253 || strings.ContainsAny(s, "/%") {
			return nil, fmt.Errorf("%q cannot be a namespace or name", s)
		}
	}
	return path, nil
}

// object makes a call, and decodes the object that is the answer.
func (c *Client) object(ctx context.Context, q *call, kind string, into any) error {
	body, err := c.do(ctx, q)
	if err != nil {
		return err
	}
	var meta metav1.TypeMeta
	// What is wrong with it is not said: the error of a decoder may quote it.
	if json.Unmarshal(body, &meta) != nil || meta.Kind != kind || json.Unmarshal(body, into) != nil {
		return c.fail(q, fmt.Errorf("the answer is not a %s: is this the address of an API server?", kind))
	}
	return nil
}

// do asks until there is an answer, as far as asking again is safe and the time allows.
// Its errors are of type [*kube.Error].
func (c *Client) do(ctx context.Context, q *call) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, fmt.Errorf("it takes longer than %v: %w", callTimeout, context.DeadlineExceeded))
	defer cancel()
	again := q.verb != "patch" // once, if the connection broke off
	for {
		body, err := c.once(ctx, q)
		if err == nil {
			return body, nil
		}
		wait := err.RetryAfter
		if wait == 0 {
			if !again || !brokeOff(err.Err) {
				return nil, err
			}
			again, wait = false, 50*time.Millisecond
		}
		if !remote.Pause(ctx, wait+rand.N(wait/4)) {
			return nil, err
		}
	}
}

func (c *Client) once(ctx context.Context, q *call) ([]byte, *kube.Error) {
	req, err := c.request(ctx, q)
	if err != nil {
		return nil, c.fail(q, err)
	}
	most := q.most
	if most == 0 {
		most = maxObject
	}
	type answer struct {
		*http.Response
		body []byte
	}
	// client-go waits for a program that gives credentials whatever the context says.
	got, err := await.Result(ctx, "send", func() (answer, error) {
		resp, err := c.http.Do(req)
		if err != nil {
			return answer{}, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
		return answer{resp, body}, err
	})
	switch {
	case err != nil:
		return nil, c.fail(q, cause(ctx, err))
	case got.StatusCode < 200 || got.StatusCode > 299:
		return nil, c.refused(q, got.Response, got.body)
	case int64(len(got.body)) > most:
		return nil, c.fail(q, fmt.Errorf("the answer is longer than %d bytes", most))
	}
	return got.body, nil
}

func (c *Client) request(ctx context.Context, q *call) (*http.Request, error) {
	path, err := q.path()
	if err != nil {
		return nil, err
	}
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	u := c.base.JoinPath(path...)
	u.RawQuery = q.query.Encode()
	method := http.MethodGet
	if q.patch != nil {
		method = http.MethodPatch
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(q.patch))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, */*") // a log is plain text
	if q.patch != nil {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	return req, nil
}

// fail is the error of a call without an answer.
func (c *Client) fail(q *call, why error) *kube.Error {
	return &kube.Error{Verb: q.verb, Resource: q.resource, Namespace: q.namespace, Name: q.name, Host: c.URL(), Err: why}
}

// refused is the error of an answer that is none of success.
func (c *Client) refused(q *call, resp *http.Response, body []byte) *kube.Error {
	e := c.fail(q, nil)
	e.Code = resp.StatusCode
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		e.Reason, e.Message = string(status.Reason), oneLine(status.Message)
	}
	if wait, asked := remote.RetryAfter(resp.Header, time.Now()); asked && (e.Code == http.StatusTooManyRequests || e.Code >= 500) {
		e.RetryAfter = max(wait, time.Second)
	}
	return e
}

// broken is a connection, or a stream of it, that ended before the answer did.
type broken struct{}

func (broken) Error() string { return "the connection ended before the answer did" }

func brokeOff(err error) bool { return errors.Is(err, broken{}) }

// cause is why there is no answer, without anything that was sent or received.
func cause(ctx context.Context, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	text := err.Error()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case strings.HasPrefix(text, "getting credentials: "), strings.HasPrefix(text, "failed to read token file"):
		text, _, _ = strings.Cut(text, "\n")
		text, _, _ = strings.Cut(text, "decoding stdout: ") // which quotes what a program wrote
		return errors.New(oneLine(text))
	case utilnet.IsConnectionReset(err), utilnet.IsProbableEOF(err), utilnet.IsHTTP2ConnectionLost(err), errors.Is(err, io.ErrUnexpectedEOF),
		strings.Contains(text, "stream error: "), strings.Contains(text, "GOAWAY"):
		return broken{}
	}
	return remote.Cause(ctx, err)
}

// oneLine makes words of others fit for one line.
func oneLine(s string) string {
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "..."
	}
	return strings.Join(strings.Fields(s), " ")
}

// codeOf is the HTTP status of a call that was refused, or 0.
func codeOf(err error) int {
	if e, ok := errors.AsType[*kube.Error](err); ok {
		return e.Code
	}
	return 0
}
