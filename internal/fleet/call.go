// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// apiCall is one request to the API server, described in terms of RBAC.
type apiCall struct {
	verb            string // get, list, patch
	resource        string // plural, including the subresource
	group           string // "" means the core group
	namespace, name string // "" means all
	query           url.Values
	patch           []byte // a merge patch
	maxResponse     int64  // maximum bytes of the response; 0 means the default for an object
}

// path returns the URL path below the base address.
func (q *apiCall) path() []string {
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
	return path
}

// getObject makes a call and decodes the response.
func (c *Client) getObject(ctx context.Context, q *apiCall, kind string, into any) error {
	body, err := c.doCall(ctx, q)
	if err != nil {
		return err
	}
	var meta metav1.TypeMeta
	// Drop the decoder's error, because it may quote the response.
	if json.Unmarshal(body, &meta) != nil || meta.Kind != kind || json.Unmarshal(body, into) != nil {
		return c.callError(q, &apiserver.Failure{Err: fmt.Errorf("the response is not a %s: check that this is the address of an API server", kind)})
	}
	return nil
}

// doCall makes a call, and retries it if that is safe. Its errors are of type
// [*kube.Error].
func (c *Client) doCall(ctx context.Context, q *apiCall) ([]byte, error) {
	a := &apiserver.Call{Path: q.path(), Query: q.query, Most: q.maxResponse, Repeat: q.patch == nil}
	if q.patch != nil {
		a.Method, a.Body, a.Type = http.MethodPatch, q.patch, "application/merge-patch+json"
	}
	body, failure := c.server.Do(ctx, a)
	if failure != nil {
		return nil, c.callError(q, failure)
	}
	return body, nil
}

// callError returns the error of a call.
func (c *Client) callError(q *apiCall, f *apiserver.Failure) *kube.Error {
	return &kube.Error{
		Verb: q.verb, Resource: q.resource, Namespace: q.namespace, Name: q.name, Host: c.URL(),
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
