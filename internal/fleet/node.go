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

// State is a node's state as a single word: the [agent.Phase] that its pod reports, or
// one of the constants below.
type State string

// States of nodes whose pod reports no state.
const (
	StateNoPod       State = "no-pod"      // the DaemonSet's pod is missing
	StateNotRunning  State = "not-running" // its pod is not running
	StateUnreachable State = "away"        // the node does not respond
	StateNoStatus    State = "silent"      // its pod is running, but has printed no recent status
	StateUnknown     State = "unknown"     // its pod's log cannot be read for another reason
	StateDeleted     State = "deleted"     // the node no longer exists
)

// maxStatusAge is the maximum age of a pod's last status. Pods print a status every ten
// minutes.
const maxStatusAge = 25 * time.Minute

// Node is the state of one node.
type Node struct {
	Name     string        `json:"name"`
	Owner    string        `json:"owner,omitempty"`   // NAMESPACE/RELEASE of the chart
	Kubelet  string        `json:"kubelet,omitempty"` // its version
	Ready    string        `json:"ready,omitempty"`   // node condition: True, False or Unknown; "" without permission to list nodes
	Pod      *Pod          `json:"pod,omitempty"`     // nil if missing
	State    State         `json:"state"`
	Done     bool          `json:"well"`             // there is nothing left to do
	Outdated bool          `json:"behind,omitempty"` // its pod belongs to an older version of the DaemonSet
	Reason   string        `json:"reason,omitempty"` // why the node is not well, on one line
	Since    time.Time     `json:"since,omitzero"`   // when the node entered this state, if known
	Status   *agent.Status `json:"status,omitempty"` // last status of its pod
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
	Restarts  int       `json:"restarts,omitempty"` // restarts of the agent's container
}

// newNode derives a node's state from its pod. nodes holds the nodes by name, or is nil if
// they are unknown. reported is the pod's last status. failed is the error that occurred when
// its log was read.
func newNode(pod *corev1.Pod, nodes map[string]*corev1.Node, reported *agent.Status, failed error, now time.Time) Node {
	node := nodes[podNodeName(pod)]
	n := Node{
		Name: podNodeName(pod), Owner: podRelease(pod), Status: reported,
		Pod: &Pod{
			Namespace: pod.Namespace, Name: pod.Name, Phase: string(pod.Status.Phase), Created: pod.CreationTimestamp.Time,
			Revision: agentFlagValue(&pod.Spec, "--revision"), Image: agentImage(&pod.Spec),
		},
	}
	if a := agentStatus(pod); a != nil {
		n.Pod.Restarts = int(a.RestartCount)
	}
	_, n.Pod.Ready = podCondition(pod, corev1.PodReady)
	n.setNodeFields(node)
	if reported != nil && n.Kubelet == "" {
		n.Kubelet = reported.Kubelet
	}
	switch waiting, since := podWaitReason(pod); {
	case nodes != nil && node == nil && n.Name != "":
		n.State, n.Reason = StateDeleted, "the node no longer exists; its pod will be deleted"
	case reported != nil && reported.Phase == agent.PhaseRemoved: // even if the status is old, or the pod has ended since
		n.setReported(reported)
	case failed != nil:
		n.setLogError(failed, node)
	case n.Ready == string(corev1.ConditionUnknown) && waiting != "": // in this case the pod's status is also old
		n.setUnreachable(node)
	case waiting != "":
		n.State, n.Reason, n.Since = StateNotRunning, waiting, since
	case reported == nil && now.Sub(since) < 30*time.Second:
		n.State, n.Reason, n.Since = State(agent.PhaseStarting), "its pod has just started", since
	case reported == nil:
		n.State, n.Since = StateNoStatus, since
		n.Reason = "its pod is running, but its log shows no state yet; after log rotation, the log can be empty for up to ten minutes"
	case now.Sub(reported.Time) > maxStatusAge:
		n.State, n.Since = StateNoStatus, reported.Time
		n.Reason = fmt.Sprintf("its pod is running but has not reported anything since phase %s", reported.Phase)
	default:
		n.setReported(reported)
	}
	return n
}

// podRelease returns the NAMESPACE/RELEASE of a pod. It ignores the pod's --owner flag if the
// flag has another namespace than the pod.
func podRelease(pod *corev1.Pod) string {
	owner := agentFlagValue(&pod.Spec, "--owner")
	if owner == "" || strings.HasPrefix(owner, pod.Namespace+"/") {
		return owner
	}
	return pod.Namespace + "/" + pod.Labels["app.kubernetes.io/instance"]
}

// setNodeFields sets the fields from a Node, which may be nil.
func (n *Node) setNodeFields(node *corev1.Node) {
	if node == nil {
		return
	}
	n.Kubelet, n.Ready = node.Status.NodeInfo.KubeletVersion, string(corev1.ConditionUnknown)
	if c := readyCondition(node); c != nil {
		n.Ready = string(c.Status)
	}
}

// setReported sets the fields from the pod's status.
func (n *Node) setReported(reported *agent.Status) {
	n.State, n.Reason, n.Since, n.Done = State(reported.Phase), oneLine(reported.Reason), reported.LastApply, reported.Phase.IsDone()
	if reported.Phase.IsDone() && reported.Phase != agent.PhaseUnsupported {
		n.Reason = ""
	}
	if n.Reason == "" && !n.Done {
		n.Reason = oneLine(strings.Join(reported.Drift, "; "))
	}
	if e := reported.LastError; e != nil && !n.Done {
		n.Since = e.Time
		if n.Reason == "" {
			n.Reason = oneLine(e.Message)
		}
	}
	if n.Since.IsZero() {
		n.Since = reported.Time
	}
}

// setLogError sets the state of a node whose pod's log could not be read. The node is
// unreachable if it is not ready. If there is no Node object, it is unreachable if the API
// server returned a 5xx status.
func (n *Node) setLogError(err error, node *corev1.Node) {
	n.State, n.Reason = StateUnknown, err.Error()
	switch code := httpStatus(err); {
	case code == http.StatusForbidden || code == http.StatusUnauthorized:
		n.Reason = "no permission to read its pod's log"
	case node != nil && n.Ready != string(corev1.ConditionTrue):
		n.setUnreachable(node)
	case node == nil && code >= 500:
		n.State = StateUnreachable
	}
	if n.Pod.Phase != "" && n.State == StateUnreachable {
		n.Reason += "; its pod was " + n.Pod.Phase
	}
}

// setUnreachable sets the state of a node that is not ready.
func (n *Node) setUnreachable(node *corev1.Node) {
	n.State, n.Reason, n.Since = StateUnreachable, "the node has not reported whether it is ready", time.Time{}
	if c := readyCondition(node); c != nil {
		n.Reason, n.Since = oneLine(fmt.Sprintf("the node is not ready: %s: %s", c.Reason, c.Message)), c.LastTransitionTime.Time
	}
}

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
