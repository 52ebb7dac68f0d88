// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package fleet reads the state of a cluster's nodes from the API server, and uninstalls
// regcred from all of them.
//
// A node's state is the last [agent.Status] in the log of its pod. So fleet only needs
// permission to list pods and read logs. If it can also list DaemonSets and nodes, it reports
// more details.
//
//	client, err := fleet.New(rest)
//	seen, err := client.Status(ctx, fleet.Query{})
//	for _, n := range seen.Nodes {
//		fmt.Println(n.Name, n.State, n.Reason)
//	}
//
// Only [Client.Remove] makes a change: it sets the state in a ConfigMap.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/agent"
)

// Query selects agents. The zero value means all.
type Query struct {
	Namespace string // "" means all
	Fallback  string // namespace to use if all namespaces are not permitted; "" means none
	Selector  string // labels of the pods and DaemonSets; "" means DefaultSelector

	Progress func(done, total int) // if not nil, called with the number of logs read, from several goroutines
}

// Fleet holds the state of the nodes and rollouts that a [Query] selects.
type Fleet struct {
	Namespace string    // "" means all
	Nodes     []Node    // by name
	Rollouts  []Rollout // sorted by namespace and name
	Notes     []string  // what could not be read, and why
}

// Status reads the state of the nodes. It lists pods, DaemonSets and nodes, and reads the log
// of each running pod. It returns an error if it cannot list pods. Other failures are added
// to [Fleet.Notes].
func (c *Client) Status(ctx context.Context, q Query) (*Fleet, error) {
	f := &Fleet{Namespace: q.Namespace}
	selector := cmp.Or(q.Selector, DefaultSelector)
	pods, err := c.listPods(ctx, f.Namespace, selector)
	if f.Namespace == "" && q.Fallback != "" && httpStatus(err) == http.StatusForbidden {
		f.Namespace = q.Fallback
		f.Notes = append(f.Notes, fmt.Sprintf("no permission to list pods in all namespaces: showing only %s", f.Namespace))
		pods, err = c.listPods(ctx, f.Namespace, selector)
	}
	if err != nil {
		return nil, err
	}
	sets, err := c.listDaemonSets(ctx, f.Namespace, selector)
	if err = f.noteUnreadable(ctx, err, "cannot tell how far the rollout has progressed or which nodes have no pod"); err != nil {
		return nil, err
	}
	var nodes map[string]*corev1.Node
	if len(pods)+len(sets) > 0 {
		nodes, err = c.listNodes(ctx)
		if err = f.noteUnreadable(ctx, err, "cannot tell which nodes are ready or which nodes have no pod"); err != nil {
			return nil, err
		}
	}
	pods = currentPods(pods)
	reported, failed := c.readStatuses(ctx, pods, q.Progress)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f.setNodesAndRollouts(pods, sets, nodes, reported, failed)
	return f, nil
}

// noteUnreadable adds a note about objects that could not be listed. If ctx has ended,
// it returns an error.
func (f *Fleet) noteUnreadable(ctx context.Context, err error, so string) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.Notes = append(f.Notes, fmt.Sprintf("%s: %v", so, err))
	return nil
}

// currentPods omits pods that have been replaced. Of a DaemonSet's pods on a node, it
// keeps the newest that is not being deleted.
func currentPods(pods []corev1.Pod) []corev1.Pod {
	type place struct{ owner, node string }
	best := map[place]*corev1.Pod{}
	for i := range pods {
		p := &pods[i]
		k := place{daemonSetKey(p), podNodeName(p)}
		if k.node == "" {
			k.node = "/" + p.Namespace + "/" + p.Name
		}
		if old := best[k]; old == nil || isBetterPod(p, old) {
			best[k] = p
		}
	}
	var all []corev1.Pod
	for _, p := range best {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func isBetterPod(a, b *corev1.Pod) bool {
	if ending := a.DeletionTimestamp != nil; ending != (b.DeletionTimestamp != nil) {
		return !ending
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

// readStatuses reads the last status of each running pod. It reads several logs concurrently.
func (c *Client) readStatuses(ctx context.Context, pods []corev1.Pod, progress func(done, total int)) (reported []*agent.Status, failed []error) {
	reported, failed = make([]*agent.Status, len(pods)), make([]error, len(pods))
	var done atomic.Int64
	var g errgroup.Group
	g.SetLimit(maxConcurrentLogs)
	for i := range pods {
		g.Go(func() error {
			if ctx.Err() == nil && isAgentRunning(&pods[i]) {
				reported[i], failed[i] = c.readStatus(ctx, &pods[i])
			}
			if n := int(done.Add(1)); progress != nil {
				progress(n, len(pods))
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in failed
	return reported, failed
}

func (f *Fleet) setNodesAndRollouts(pods []corev1.Pod, sets []appsv1.DaemonSet, nodes map[string]*corev1.Node, reported []*agent.Status, failed []error) {
	now := time.Now()
	of := map[string][]Node{} // by daemonSetKey
	byOwner := map[string]*appsv1.DaemonSet{}
	for i := range sets {
		byOwner[sets[i].Namespace+"/"+string(sets[i].UID)] = &sets[i]
	}
	var once sync.Once
	for i := range pods {
		n := newNode(&pods[i], nodes, reported[i], failed[i], now)
		if httpStatus(failed[i]) == http.StatusForbidden {
			once.Do(func() { f.Notes = append(f.Notes, fmt.Sprintf("the nodes' state is unknown: %v", failed[i])) })
		}
		owner := daemonSetKey(&pods[i])
		if ds := byOwner[owner]; ds != nil && isOutdated(&pods[i], ds) {
			n.Outdated = true
			if n.Done {
				n.Done, n.Reason = false, cmp.Or(n.Reason, "its pod has not been replaced yet")
			}
		}
		of[owner] = append(of[owner], n)
	}
	for i := range sets {
		ds := &sets[i]
		owner := ds.Namespace + "/" + string(ds.UID)
		for _, name := range slices.Sorted(maps.Keys(nodes)) {
			if shouldRunOn(ds, nodes[name]) && !slices.ContainsFunc(of[owner], func(n Node) bool { return n.Name == name }) {
				of[owner] = append(of[owner], missingPod(ds, nodes[name]))
			}
		}
		f.Rollouts = append(f.Rollouts, newRollout(ds, of[owner]))
	}
	for _, some := range of {
		f.Nodes = append(f.Nodes, some...)
	}
	slices.SortFunc(f.Nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Owner, b.Owner))
	})
	slices.SortFunc(f.Rollouts, func(a, b Rollout) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
