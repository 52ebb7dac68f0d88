// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/agent"
)

// State is a node's state in one word: the [agent.Phase] that its pod reports, or one of
// the constants below.
type State string

// The states of nodes whose pod reports none.
const (
	NoPod      State = "no-pod"      // the DaemonSet's pod is missing
	NotRunning State = "not-running" // its pod does not run
	Away       State = "away"        // the node does not respond
	Silent     State = "silent"      // its pod runs, and has printed no recent status
	Unknown    State = "unknown"     // its pod's log cannot be read for another reason
	Deleted    State = "deleted"     // the node no longer exists
)

// maxSilence is how old a pod's last status may be. Pods print one every ten minutes.
const maxSilence = 25 * time.Minute

// Node is the state of one node.
type Node struct {
	Name    string        `json:"name"`
	Owner   string        `json:"owner,omitempty"`   // NAMESPACE/RELEASE of the chart
	Kubelet string        `json:"kubelet,omitempty"` // its version
	Ready   string        `json:"ready,omitempty"`   // the node's condition: True, False, Unknown; "" without the permission to list nodes
	Pod     *Pod          `json:"pod,omitempty"`     // nil if missing
	State   State         `json:"state"`
	Well    bool          `json:"well"`             // there is nothing left to do
	Behind  bool          `json:"behind,omitempty"` // its pod is from an older version of the DaemonSet
	Reason  string        `json:"reason,omitempty"` // one line: why it is not well
	Since   time.Time     `json:"since,omitzero"`   // when that began, if known
	Status  *agent.Status `json:"status,omitempty"` // the last one of its pod
}

// Pod is the agent's pod on a node.
type Pod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Phase     string    `json:"phase"`
	Ready     bool      `json:"ready"`
	Created   time.Time `json:"created,omitzero"`
	Revision  string    `json:"revision,omitempty"` // the name of its ConfigMap
	Image     string    `json:"image,omitempty"`
	Restarts  int       `json:"restarts,omitempty"` // of the agent's container
}

// newNode returns a node's state for its pod, the nodes by name (nil if unknown), the pod's
// last status, and the error of reading the log.
func newNode(pod *corev1.Pod, nodes map[string]*corev1.Node, reported *agent.Status, failed error, now time.Time) Node {
	node := nodes[nodeOf(pod)]
	n := Node{
		Name: nodeOf(pod), Owner: release(pod), Status: reported,
		Pod: &Pod{
			Namespace: pod.Namespace, Name: pod.Name, Phase: string(pod.Status.Phase), Created: pod.CreationTimestamp.Time,
			Revision: argument(&pod.Spec, "--revision"), Image: image(&pod.Spec),
		},
	}
	if a := agentStatus(pod); a != nil {
		n.Pod.Restarts = int(a.RestartCount)
	}
	_, n.Pod.Ready = condition(pod, corev1.PodReady)
	n.setMachine(node)
	if reported != nil && n.Kubelet == "" {
		n.Kubelet = reported.Kubelet
	}
	switch w := waiting(pod); {
	case nodes != nil && node == nil && n.Name != "":
		n.State, n.Reason = Deleted, "the node no longer exists; its pod will be deleted"
	case reported != nil && reported.Phase == agent.Removed: // even if it is old, or the pod has ended since
		n.setReported(reported)
	case failed != nil:
		n.setFailed(failed, node)
	case n.Ready == string(corev1.ConditionUnknown) && w.why != "": // then the pod's status is old too
		n.State, n.Reason, n.Since = Away, notReady(node), readySince(node)
	case w.why != "":
		n.State, n.Reason, n.Since = NotRunning, w.why, w.since
	case reported == nil && now.Sub(w.since) < 30*time.Second:
		n.State, n.Reason, n.Since = State(agent.Starting), "its pod has just started", w.since
	case reported == nil:
		n.State, n.Since = Silent, w.since
		n.Reason = "its pod is running, but its log shows no state yet; after log rotation, the log can be empty for up to ten minutes"
	case now.Sub(reported.Time) > maxSilence:
		n.State, n.Since = Silent, reported.Time
		n.Reason = fmt.Sprintf("its pod is running but has not reported anything since phase %s", reported.Phase)
	default:
		n.setReported(reported)
	}
	return n
}

// release returns the NAMESPACE/RELEASE of a pod. Its own report is ignored if it names
// another namespace.
func release(pod *corev1.Pod) string {
	owner := argument(&pod.Spec, "--owner")
	if owner == "" || strings.HasPrefix(owner, pod.Namespace+"/") {
		return owner
	}
	return pod.Namespace + "/" + pod.Labels["app.kubernetes.io/instance"]
}

// setMachine sets the fields from a Node, which may be nil.
func (n *Node) setMachine(node *corev1.Node) {
	if node == nil {
		return
	}
	n.Kubelet, n.Ready = node.Status.NodeInfo.KubeletVersion, string(corev1.ConditionUnknown)
	if c := nodeReady(node); c != nil {
		n.Ready = string(c.Status)
	}
}

// setReported sets the fields from the pod's status.
func (n *Node) setReported(reported *agent.Status) {
	n.State, n.Reason, n.Since, n.Well = State(reported.Phase), oneLine(reported.Reason), reported.LastApply, reported.Phase.Done()
	if reported.Phase.Done() && reported.Phase != agent.Unsupported {
		n.Reason = ""
	}
	if n.Reason == "" && !n.Well {
		n.Reason = oneLine(strings.Join(reported.Drift, "; "))
	}
	if e := reported.LastError; e != nil && !n.Well {
		n.Since = e.Time
		if n.Reason == "" {
			n.Reason = oneLine(e.Message)
		}
	}
	if n.Since.IsZero() {
		n.Since = reported.Time
	}
}

// setFailed handles a pod whose log could not be read. If the kubelet does not respond,
// the node is away, unless its condition is Ready.
func (n *Node) setFailed(err error, node *corev1.Node) {
	n.State, n.Reason = Unknown, err.Error()
	switch code := codeOf(err); {
	case code == http.StatusForbidden || code == http.StatusUnauthorized:
		n.Reason = "no permission to read its pod's log"
	case node != nil && n.Ready != string(corev1.ConditionTrue):
		n.State, n.Reason, n.Since = Away, notReady(node), readySince(node)
	case node == nil && code >= 500:
		n.State = Away
	}
	if n.Pod.Phase != "" && n.State == Away {
		n.Reason += "; its pod was " + n.Pod.Phase
	}
}

// notReady returns why a node is not ready.
func notReady(node *corev1.Node) string {
	c := nodeReady(node)
	if c == nil {
		return "the node has not reported whether it is ready"
	}
	return oneLine(fmt.Sprintf("the node is not ready: %s: %s", c.Reason, c.Message))
}

func readySince(node *corev1.Node) time.Time {
	if c := nodeReady(node); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

func nodeReady(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
