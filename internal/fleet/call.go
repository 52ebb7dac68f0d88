// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/apiserver"
	"github.com/regcred/regcred/kube"
)

const (
	callTimeout       = 10 * time.Second // for one call, including retries
	maxPageBytes      = 64 << 20         // bytes per page of a list; a Node includes a list of its images
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

const objectsPerPage = 250

// DefaultSelector selects the agent pods of all releases of the chart.
const DefaultSelector = "app.kubernetes.io/name=regcred,app.kubernetes.io/component=agent"

// agentContainerName is the name of the agent's container in the pod.
const agentContainerName = "agent"

func (c *Client) listPods(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	return listAll[corev1.Pod](ctx, c, &apiserver.Call{Resource: "pods", Namespace: namespace}, selector, "PodList", nil)
}

func (c *Client) listDaemonSets(ctx context.Context, namespace, selector string) ([]appsv1.DaemonSet, error) {
	q := &apiserver.Call{Group: "apps", Resource: "daemonsets", Namespace: namespace}
	return listAll[appsv1.DaemonSet](ctx, c, q, selector, "DaemonSetList", nil)
}

// listNodes returns all nodes by name. It drops their lists of images, which are most of a
// node's size.
func (c *Client) listNodes(ctx context.Context) (map[string]*corev1.Node, error) {
	all, err := listAll(ctx, c, &apiserver.Call{Resource: "nodes"}, "", "NodeList", func(n *corev1.Node) { n.Status.Images = nil })
	if err != nil {
		return nil, err
	}
	byName := map[string]*corev1.Node{}
	for i := range all {
		byName[all[i].Name] = &all[i]
	}
	return byName, nil
}

// listAll returns all objects that the call selects. It reads them in pages. trim, if not nil,
// is called for each object. If the API server's snapshot expires between two pages, list
// starts again once.
func listAll[T any](ctx context.Context, c *Client, q *apiserver.Call, selector, kind string, trim func(*T)) (all []T, err error) {
	q.Verb, q.MaxSize = "list", maxPageBytes
	q.Query = url.Values{"limit": {strconv.Itoa(objectsPerPage)}}
	if selector != "" {
		q.Query.Set("labelSelector", selector)
	}
	for again := true; ; {
		var page struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []T             `json:"items"`
		}
		err := c.getObject(ctx, q, kind, &page)
		if httpStatus(err) == http.StatusGone && again && q.Query.Has("continue") {
			again, all = false, nil
			q.Query.Del("continue")
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if trim != nil {
				trim(&page.Items[i])
			}
		}
		all = append(all, page.Items...)
		if page.Metadata.Continue == "" {
			return all, nil
		}
		q.Query.Set("continue", page.Metadata.Continue)
	}
}
