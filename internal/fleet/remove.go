// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/kube"
)

const (
	// A role that was made a moment ago may not be known to each API server yet: a
	// refusal is believed when it has been repeated for so long.
	maxForbidden = 3 * time.Second

	// Where nodes may not be listed: for how long a node is waited for whose pod is
	// gone and has no successor. A DaemonSet's controller makes one within seconds.
	maxPodless = time.Minute
)

// RemoveOptions are for [Client.Remove].
type RemoveOptions struct {
	Namespace string
	ConfigMap string        // in which data.state becomes "absent"
	Selector  string        // labels of the agents' pods
	Timeout   time.Duration // of all

	// Changed, if not nil, is told when another state of a node is seen, and how many of
	// all have been seen removed. Note is told what else a reader may want to know.
	Changed func(n Node, removed, all int)
	Note    func(text string)
}

// Removal is what became of it.
type Removal struct {
	Removed []string // nodes that say that nothing of regcred is on them
	Gone    []string // nodes that do not exist any more
	Missing []Node   // the others, of which Reason says why
}

// removal is a Remove under way.
type removal struct {
	*Client
	RemoveOptions
	places    map[string]*place
	down      bool // the API server did not answer last time
	seen      bool // all pods have been looked at, once at least
	whole     bool // all were last time
	last      error
	noNodes   bool // nodes may not be listed
	readable  bool // a log could be read: if another may not, it is that node's kubelet that refuses
	forbidden time.Time
}

// place is what is known of a node.
type place struct {
	Node
	uid     string // of the pod that was seen last
	removed bool
	gone    bool
	podless time.Time // since when it has no pod; zero if it has one
}

func (p *place) done() bool { return p.removed || p.gone }

// Remove has all agents take regcred off their nodes, and waits until each says that it
// has, until the timeout; [Removal.Missing] are those that have not. It may be called
// again. That the API server does not respond, or does not know us for a moment, is
// tried again until the timeout; that something is forbidden is an error.
func (c *Client) Remove(ctx context.Context, o RemoveOptions) (*Removal, error) {
	r := &removal{Client: c, RemoveOptions: o, places: map[string]*place{}}
	timed, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	there, err := r.setAbsent(timed)
	for err == nil {
		if err = r.look(timed); err != nil || r.finished() {
			break
		}
		if !remote.Pause(timed, r.interval()) {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case !r.seen && r.last == nil:
		return nil, fmt.Errorf("the state was set to absent, but the pods could not be listed within %v", o.Timeout)
	case !r.seen:
		return nil, fmt.Errorf("the state was set to absent, but after %v it is still unknown which nodes have applied it: %w", o.Timeout, r.last)
	case !there && len(r.places) > 0:
		return nil, fmt.Errorf("ConfigMap %s/%s does not exist, but %d pods read it", o.Namespace, o.ConfigMap, len(r.places))
	}
	return r.result(), nil
}

// setAbsent tells the pods. there is false if the ConfigMap is not there.
func (r *removal) setAbsent(ctx context.Context) (there bool, err error) {
	q := &call{
		verb: "patch", resource: "configmaps", namespace: r.Namespace, name: r.ConfigMap,
		patch: []byte(`{"data":{"state":"absent"}}`),
	}
	for {
		_, err = r.do(ctx, q)
		switch {
		case err == nil:
			r.answered(nil)
			return true, nil
		case codeOf(err) == http.StatusNotFound:
			r.note("ConfigMap %s/%s does not exist", r.Namespace, r.ConfigMap)
			return false, nil
		}
		if err := r.fatal(err); err != nil {
			return false, err
		}
		if !remote.Pause(ctx, time.Second) {
			return false, fmt.Errorf("could not set the state to absent within %v: %w", r.Timeout, err)
		}
	}
}

// fatal returns an error that trying again does not mend, and notes others.
func (r *removal) fatal(err error) error {
	r.last = err
	e, ok := errors.AsType[*kube.Error](err)
	switch {
	case !ok:
		return err
	case e.Code == http.StatusForbidden:
		if r.forbidden.IsZero() {
			r.forbidden = time.Now()
		}
		if time.Since(r.forbidden) < maxForbidden {
			return nil
		}
		return err
	case e.Unanswered(), e.Code == http.StatusUnauthorized, e.Code == http.StatusConflict:
		r.answered(err)
		return nil
	}
	return err
}

// answered notes when the API server ceases to answer, and when it begins again.
func (r *removal) answered(err error) {
	switch {
	case err != nil && !r.down:
		r.note("retrying: %v", err)
	case err == nil && r.down:
		r.note("the API server responds again")
	}
	r.down = err != nil
	if err == nil {
		r.forbidden = time.Time{}
	}
}

func (r *removal) note(format string, args ...any) {
	if r.Note != nil {
		r.Note(fmt.Sprintf(format, args...))
	}
}

// interval is for how long nothing is asked: of many pods, less often.
func (r *removal) interval() time.Duration {
	pending := 0
	for _, p := range r.places {
		if !p.done() {
			pending++
		}
	}
	return min(max(time.Duration(pending)*20*time.Millisecond, 2*time.Second), 10*time.Second)
}

func (r *removal) finished() bool {
	for _, p := range r.places {
		if !p.done() {
			return false
		}
	}
	return r.whole
}

// look looks once at all pods that have not said that they are done.
func (r *removal) look(ctx context.Context) error {
	r.whole = false
	pods, err := r.pods(ctx, r.Namespace, r.Selector)
	var nodes map[string]*corev1.Node
	if err == nil {
		nodes, err = r.nodesIfAllowed(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return r.fatal(err)
	}
	pods = current(slices.DeleteFunc(pods, r.ofAnother))
	ask := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		known := r.places[placeOf(&p)]
		return known != nil && known.removed && known.uid == string(p.UID)
	})
	said, failed := r.readAll(ctx, ask, nil)
	if ctx.Err() != nil {
		return nil
	}
	for i, err := range failed {
		r.readable = r.readable || err == nil && runs(&ask[i])
	}
	for _, err := range failed {
		if codeOf(err) == http.StatusForbidden && !r.readable || lost(err) {
			return r.fatal(err)
		}
	}
	r.answered(nil)
	r.seen, r.whole = true, true
	for i := range ask {
		if name := placeOf(&ask[i]); r.places[name] == nil {
			r.places[name] = &place{}
		}
	}
	for i := range ask {
		r.take(&ask[i], nodes, said[i], failed[i])
	}
	r.takePodless(pods, nodes)
	return nil
}

// ofAnother reports whether a pod is told its state by another ConfigMap: it is of
// another release.
func (r *removal) ofAnother(pod corev1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if v.Name == "state" && v.ConfigMap != nil {
			return v.ConfigMap.Name != r.ConfigMap
		}
	}
	return false
}

// lost reports whether it was the API server that did not answer, and not a node that
// it asked, for which it takes long or answers itself.
func lost(err error) bool {
	e, ok := errors.AsType[*kube.Error](err)
	return ok && e.Err != nil && !errors.Is(e.Err, context.DeadlineExceeded)
}

// nodesIfAllowed are the nodes by name, or nil where they may not be listed.
func (r *removal) nodesIfAllowed(ctx context.Context) (map[string]*corev1.Node, error) {
	if r.noNodes {
		return nil, nil
	}
	nodes, err := r.nodes(ctx)
	switch {
	case codeOf(err) == http.StatusForbidden:
		r.noNodes = true
		return nil, nil
	case err != nil:
		return nil, err
	}
	return nodes, nil
}

// placeOf is the name of a pod's node, or of what stands for it where none is known.
func placeOf(pod *corev1.Pod) string { return cmp.Or(nodeOf(pod), "pod "+pod.Name) }

// take takes in how a pod stands.
func (r *removal) take(pod *corev1.Pod, nodes map[string]*corev1.Node, said *agent.Status, failed error) {
	n := newNode(pod, nodes[nodeOf(pod)], said, failed, time.Now())
	n.Name = placeOf(pod)
	p := r.places[n.Name]
	p.podless = time.Time{}
	was := *p
	p.Node, p.uid = n, string(pod.UID)
	switch {
	case nodes != nil && nodeOf(pod) != "" && nodes[nodeOf(pod)] == nil:
		p.State, p.gone, p.removed = Deleted, true, false
	case n.State == State(agent.Removed):
		p.removed, p.gone = true, false
	case was.removed && (said == nil || said.Phase == agent.Starting):
		p.State = was.State // a new pod, on a node that has said it: the state it begins with is absent
	default:
		p.removed, p.gone = false, false
	}
	r.tell(p, was.State)
}

// takePodless takes in that nodes have no pod any more.
func (r *removal) takePodless(pods []corev1.Pod, nodes map[string]*corev1.Node) {
	now := time.Now()
	for name, p := range r.places {
		if p.done() || slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return placeOf(&pod) == name }) {
			continue
		}
		was := p.State
		if p.podless.IsZero() {
			p.podless, p.Since = now, now
		}
		p.State, p.Reason = NoPod, "its pod was deleted and not replaced"
		switch _, there := nodes[name]; {
		case nodes != nil && !there:
			p.State, p.gone = Deleted, true
		case nodes == nil && now.Sub(p.podless) >= maxPodless:
			p.State, p.gone = Deleted, true
			r.note("%s: its pod was deleted a minute ago and not replaced: the node was probably deleted or is no longer selected", name)
		}
		r.tell(p, was)
	}
}

// tell says that a node stands otherwise than before.
func (r *removal) tell(p *place, was State) {
	if p.State == was || r.Changed == nil {
		return
	}
	removed := 0
	for _, p := range r.places {
		if p.removed {
			removed++
		}
	}
	r.Changed(p.Node, removed, len(r.places))
}

func (r *removal) result() *Removal {
	res := &Removal{}
	for name, p := range r.places {
		switch {
		case p.removed:
			res.Removed = append(res.Removed, name)
		case p.gone:
			res.Gone = append(res.Gone, name)
		default:
			res.Missing = append(res.Missing, p.Node)
		}
	}
	slices.Sort(res.Removed)
	slices.Sort(res.Gone)
	slices.SortFunc(res.Missing, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return res
}
