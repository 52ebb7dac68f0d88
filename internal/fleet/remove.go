// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/apiserver"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/kube"
)

const (
	// forbiddenRetryTimeout is how long a request is retried after a Forbidden response,
	// because some API servers may not know a new role yet.
	forbiddenRetryTimeout = 3 * time.Second

	// podReplaceTimeout is how long to wait until a deleted pod is replaced, if there is no
	// permission to list nodes. A DaemonSet's controller replaces a pod within seconds.
	podReplaceTimeout = time.Minute
)

// RemoveOptions holds the options of [Client.Remove].
type RemoveOptions struct {
	Namespace string
	ConfigMap string        // the ConfigMap whose data.state is set to "absent"
	Selector  string        // labels of the agent pods
	Timeout   time.Duration // for the whole call

	// OnChange, if not nil, is called when a node's state changes, with the number of
	// removed nodes and the total. Note, if not nil, is called with other messages.
	OnChange  func(n Node, removed, all int)
	OnMessage func(text string)
}

// Removal is the result of [Client.Remove].
type Removal struct {
	Removed    []string // nodes on which nothing of regcred is left
	Deleted    []string // nodes that no longer exist
	NotRemoved []Node   // all other nodes, with a Reason
}

// removalRun holds the state of one call of [Client.Remove].
type removalRun struct {
	*Client
	RemoveOptions
	nodes           map[string]*nodeProgress
	apiServerDown   bool      // the API server did not respond last time
	readAllOnce     bool      // all pods have been read at least once
	last            error     // last error of a request
	cannotListNodes bool      // there is no permission to list nodes
	readAnyLog      bool      // a log could be read, so a Forbidden for another log is from that node's kubelet
	firstForbidden  time.Time // time of the first Forbidden response
}

// nodeProgress holds the state of a node and the UID of its last pod.
type nodeProgress struct {
	Node
	uid             string    // UID of the last pod
	podMissingSince time.Time // when its pod was found missing; zero if it has one
}

func (p *nodeProgress) removed() bool { return p.State == State(agent.PhaseRemoved) }
func (p *nodeProgress) isDone() bool  { return p.removed() || p.State == StateDeleted }

// Remove makes all agents uninstall regcred from their nodes, and waits for them until
// the timeout. [Removal.NotRemoved] lists the remaining nodes. Remove may be called again.
// If the API server does not respond or rejects the credentials, Remove retries until
// the timeout.
func (c *Client) Remove(ctx context.Context, o RemoveOptions) (*Removal, error) {
	r := &removalRun{Client: c, RemoveOptions: o, nodes: map[string]*nodeProgress{}}
	timed, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	there, err := r.setAbsent(timed)
	for err == nil {
		var complete bool
		if complete, err = r.readPods(timed); err != nil {
			break
		}
		pending := len(r.nodes) - r.countNodes((*nodeProgress).isDone)
		if complete && pending == 0 || !remote.Sleep(timed, pollInterval(pending)) {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case !r.readAllOnce && r.last == nil:
		return nil, fmt.Errorf("the state was set to absent, but the pods could not be listed within %v", o.Timeout)
	case !r.readAllOnce:
		return nil, fmt.Errorf("the state was set to absent, but after %v it is still unknown which nodes have applied it: %w", o.Timeout, r.last)
	case !there && len(r.nodes) > 0:
		return nil, fmt.Errorf("ConfigMap %s/%s does not exist, but %d pods read it", o.Namespace, o.ConfigMap, len(r.nodes))
	}
	return r.result(), nil
}

// setAbsent sets the desired state in the ConfigMap. there is false if the ConfigMap does not
// exist.
func (r *removalRun) setAbsent(ctx context.Context) (there bool, err error) {
	q := &apiserver.Call{
		Verb: "patch", Resource: "configmaps", Namespace: r.Namespace, Name: r.ConfigMap,
		Body: map[string]any{"data": map[string]string{"state": "absent"}},
	}
	for {
		_, err = r.doCall(ctx, q)
		switch {
		case err == nil:
			r.noteResponse(nil)
			return true, nil
		case httpStatus(err) == http.StatusNotFound:
			r.notef("ConfigMap %s/%s does not exist", r.Namespace, r.ConfigMap)
			return false, nil
		}
		if err := r.permanentError(err); err != nil {
			return false, err
		}
		if !remote.Sleep(ctx, time.Second) {
			return false, fmt.Errorf("could not set the state to absent within %v: %w", r.Timeout, err)
		}
	}
}

// permanentError records an error, and returns it only if a retry cannot succeed.
func (r *removalRun) permanentError(err error) error {
	r.last = err
	e, ok := errors.AsType[*kube.Error](err)
	switch {
	case !ok:
		return err
	case e.Code == http.StatusForbidden:
		if r.firstForbidden.IsZero() {
			r.firstForbidden = time.Now()
		}
		if time.Since(r.firstForbidden) < forbiddenRetryTimeout {
			return nil
		}
		return err
	case e.IsUnavailable(), e.Code == http.StatusUnauthorized, e.Code == http.StatusConflict:
		r.noteResponse(err)
		return nil
	}
	return err
}

// noteResponse reports when the API server stops responding, and when it responds again.
func (r *removalRun) noteResponse(err error) {
	switch {
	case err != nil && !r.apiServerDown:
		r.notef("retrying: %v", err)
	case err == nil && r.apiServerDown:
		r.notef("the API server responds again")
	}
	r.apiServerDown = err != nil
	if err == nil {
		r.firstForbidden = time.Time{}
	}
}

func (r *removalRun) notef(format string, args ...any) {
	if r.OnMessage != nil {
		r.OnMessage(fmt.Sprintf(format, args...))
	}
}

func (r *removalRun) countNodes(in func(*nodeProgress) bool) (n int) {
	for _, p := range r.nodes {
		if in(p) {
			n++
		}
	}
	return n
}

// pollInterval returns the time between two reads of the pods. It is longer if there are many
// pods.
func pollInterval(pods int) time.Duration {
	return min(max(time.Duration(pods)*20*time.Millisecond, 2*time.Second), 10*time.Second)
}

// readPods reads the status of each pod, except pods that have already uninstalled regcred.
// complete is false if not all of them could be read.
func (r *removalRun) readPods(ctx context.Context) (complete bool, err error) {
	pods, err := r.listPods(ctx, r.Namespace, r.Selector)
	var nodes map[string]*corev1.Node
	if err == nil {
		nodes, err = r.nodesIfAllowed(ctx)
	}
	if ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		return false, r.permanentError(err)
	}
	pods = currentPods(slices.DeleteFunc(pods, r.isOtherRelease))
	ask := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		known := r.nodes[keyOf(&p)]
		return known != nil && known.removed() && known.uid == string(p.UID)
	})
	reported, failed := r.readStatuses(ctx, ask, nil)
	if ctx.Err() != nil {
		return false, nil
	}
	for i, err := range failed {
		r.readAnyLog = r.readAnyLog || err == nil && isAgentRunning(&ask[i])
	}
	for _, err := range failed {
		if httpStatus(err) == http.StatusForbidden && !r.readAnyLog || isServerFailure(err) {
			return false, r.permanentError(err)
		}
	}
	r.noteResponse(nil)
	r.readAllOnce = true
	for i := range ask {
		if name := keyOf(&ask[i]); r.nodes[name] == nil {
			r.nodes[name] = &nodeProgress{}
		}
	}
	for i := range ask {
		r.updateNodes(&ask[i], nodes, reported[i], failed[i])
	}
	r.updatePodless(pods, nodes)
	return true, nil
}

// isOtherRelease reports whether a pod belongs to another release because it reads its
// state from a different ConfigMap.
func (r *removalRun) isOtherRelease(pod corev1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if v.Name == "state" && v.ConfigMap != nil {
			return v.ConfigMap.Name != r.ConfigMap
		}
	}
	return false
}

// isServerFailure reports whether the API server itself did not respond, rather than a node's
// kubelet.
func isServerFailure(err error) bool {
	e, ok := errors.AsType[*kube.Error](err)
	return ok && e.Err != nil && !errors.Is(e.Err, context.DeadlineExceeded)
}

// nodesIfAllowed returns the nodes by name, or nil if there is no permission to list nodes.
func (r *removalRun) nodesIfAllowed(ctx context.Context) (map[string]*corev1.Node, error) {
	if r.cannotListNodes {
		return nil, nil
	}
	nodes, err := r.listNodes(ctx)
	if httpStatus(err) == http.StatusForbidden {
		r.cannotListNodes, err = true, nil
	}
	return nodes, err
}

// keyOf returns the name of a pod's node, or a name for the pod if it has no node.
func keyOf(pod *corev1.Pod) string { return cmp.Or(podNodeName(pod), "pod "+pod.Name) }

func (r *removalRun) updateNodes(pod *corev1.Pod, nodes map[string]*corev1.Node, reported *agent.Status, failed error) {
	n := newNode(pod, nodes, reported, failed, time.Now())
	n.Name = keyOf(pod)
	p := r.nodes[n.Name]
	was := p.State
	if p.removed() && n.State != StateDeleted && (reported == nil || reported.Phase == agent.PhaseStarting) {
		n.State = was // a new pod on a node without regcred
	}
	*p = nodeProgress{Node: n, uid: string(pod.UID)}
	r.notifyChange(p, was)
}

// updatePodless updates nodes that no longer have a pod.
func (r *removalRun) updatePodless(pods []corev1.Pod, nodes map[string]*corev1.Node) {
	now := time.Now()
	for name, p := range r.nodes {
		if p.isDone() || slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return keyOf(&pod) == name }) {
			continue
		}
		was := p.State
		if p.podMissingSince.IsZero() {
			p.podMissingSince, p.Since = now, now
		}
		p.State, p.Reason = StateNoPod, "its pod was deleted and not replaced"
		switch _, there := nodes[name]; {
		case nodes != nil && !there:
			p.State = StateDeleted
		case nodes == nil && now.Sub(p.podMissingSince) >= podReplaceTimeout:
			p.State = StateDeleted
			r.notef("%s: its pod was deleted a minute ago and not replaced: the node was probably deleted or is no longer selected", name)
		}
		r.notifyChange(p, was)
	}
}

// notifyChange calls OnChange if the state of a node has changed.
func (r *removalRun) notifyChange(p *nodeProgress, was State) {
	if p.State == was || r.OnChange == nil {
		return
	}
	r.OnChange(p.Node, r.countNodes((*nodeProgress).removed), len(r.nodes))
}

func (r *removalRun) result() *Removal {
	res := &Removal{}
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		switch p := r.nodes[name]; {
		case p.removed():
			res.Removed = append(res.Removed, name)
		case p.State == StateDeleted:
			res.Deleted = append(res.Deleted, name)
		default:
			res.NotRemoved = append(res.NotRemoved, p.Node)
		}
	}
	return res
}

// manualUninstallCommand is the command that uninstalls regcred on a node.
const manualUninstallCommand = "run sudo regcred uninstall --restart on the node"

// NotRemovedReason explains, on one line, why regcred has not been removed from a node
// of [Removal.NotRemoved], and how to fix it.
func (n *Node) NotRemovedReason() string {
	switch n.State {
	case StateUnreachable:
		return n.Reason + ": when the node is back, its pod uninstalls regcred if the DaemonSet still exists; otherwise " + manualUninstallCommand
	case StateNotRunning, StateNoPod:
		return n.Reason + ": " + manualUninstallCommand
	case State(agent.PhaseNotRemoved):
		return fmt.Sprintf("the uninstall failed: %s: fix the cause, or %s", n.Reason, manualUninstallCommand)
	case State(agent.PhaseStarting), State(agent.PhaseApplying):
		return "its pod is still applying the change (" + string(n.State) + "): wait and run this command again, or " + manualUninstallCommand
	case StateNoStatus, StateUnknown:
		return n.Reason + ": if the state does not change, " + manualUninstallCommand
	}
	return fmt.Sprintf("its pod still reports %s; kubelets propagate the change within about a minute: run this command again, or %s", n.State, manualUninstallCommand)
}
