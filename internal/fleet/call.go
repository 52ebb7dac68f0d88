// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/apiserver"
	"github.com/regcred/regcred/kube"
)

const (
	callTimeout       = 10 * time.Second // for one call, including retries
	maxPageSize       = 64 << 20         // bytes per page of a list; a Node includes a list of its images
	maxConcurrentLogs = 16               // number of logs read concurrently
)

// Client reads the fleet's state from an API server. It is safe for concurrent use.
type Client struct{ server *apiserver.Server }

// New returns a Client for a client-go configuration. It does not send any requests.
func New(cfg *rest.Config) (*Client, error) {
	server, err := apiserver.New(cfg, callTimeout)
	if err != nil {
		return nil, err
	}
	return &Client{server}, nil
}

// URL returns the address of the API server.
func (c *Client) URL() string { return c.server.URL() }

// getObject makes a call and decodes the response.
func (c *Client) getObject(ctx context.Context, q *apiserver.Call, kind string, into any) error {
	if failure := c.server.GetObject(ctx, q, kind, into); failure != nil {
		return c.callError(q, failure)
	}
	return nil
}

// doCall makes a call. Its errors are of type [*kube.Error].
func (c *Client) doCall(ctx context.Context, q *apiserver.Call) ([]byte, error) {
	body, failure := c.server.Do(ctx, q)
	if failure != nil {
		return nil, c.callError(q, failure)
	}
	return body, nil
}

func (c *Client) callError(q *apiserver.Call, f *apiserver.Failure) *kube.Error {
	return &kube.Error{
		Verb: q.Verb, Resource: q.Resource, Namespace: q.Namespace, Name: q.Name, Host: c.URL(),
		Code: f.Code, Reason: f.Reason, Message: f.Message, RetryAfter: f.RetryAfter, Err: f.Err,
	}
}

// httpStatus returns the HTTP status of a failed call, or 0.
func httpStatus(err error) int {
	if e, ok := errors.AsType[*kube.Error](err); ok {
		return e.Code
	}
	return 0
}
