// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pageSize is the maximum number of objects in a response.
const pageSize = 250

// Selector selects the agents' pods of all releases of the chart.
const Selector = "app.kubernetes.io/name=regcred,app.kubernetes.io/component=agent"

// container is the name of the agent's container in its pod.
const container = "agent"

func (c *Client) pods(ctx context.Context, namespace, selector string) (all []corev1.Pod, err error) {
	err = c.list(ctx, &call{resource: "pods", namespace: namespace}, selector, "PodList", func() (any, func() metav1.ListMeta) {
		var page corev1.PodList
		return &page, func() metav1.ListMeta { all = append(all, page.Items...); return page.ListMeta }
	}, func() { all = nil })
	return all, err
}

func (c *Client) daemonSets(ctx context.Context, namespace, selector string) (all []appsv1.DaemonSet, err error) {
	err = c.list(ctx, &call{group: "apps", resource: "daemonsets", namespace: namespace}, selector, "DaemonSetList", func() (any, func() metav1.ListMeta) {
		var page appsv1.DaemonSetList
		return &page, func() metav1.ListMeta { all = append(all, page.Items...); return page.ListMeta }
	}, func() { all = nil })
	return all, err
}

// nodes returns all nodes by name.
func (c *Client) nodes(ctx context.Context) (all map[string]*corev1.Node, err error) {
	all = map[string]*corev1.Node{}
	err = c.list(ctx, &call{resource: "nodes"}, "", "NodeList", func() (any, func() metav1.ListMeta) {
		var page corev1.NodeList
		return &page, func() metav1.ListMeta {
			for i := range page.Items {
				page.Items[i].Status.Images = nil // most of its bytes
				all[page.Items[i].Name] = &page.Items[i]
			}
			return page.ListMeta
		}
	}, func() { clear(all) })
	return all, err
}

// list reads all pages. page returns the value to decode a page into, and a function that
// adds it; forget drops the pages if the list has to be restarted, because the first
// page's snapshot has expired on the API server.
func (c *Client) list(ctx context.Context, q *call, selector, kind string, page func() (any, func() metav1.ListMeta), forget func()) error {
	q.verb, q.most = "list", maxPage
	q.query = url.Values{"limit": {strconv.Itoa(pageSize)}}
	if selector != "" {
		q.query.Set("labelSelector", selector)
	}
	for again := true; ; {
		into, take := page()
		err := c.object(ctx, q, kind, into)
		if codeOf(err) == http.StatusGone && again && q.query.Has("continue") {
			again = false
			q.query.Del("continue")
			forget()
			continue
		}
		if err != nil {
			return err
		}
		meta := take()
		if meta.Continue == "" {
			return nil
		}
		q.query.Set("continue", meta.Continue)
	}
}
