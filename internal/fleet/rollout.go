// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/regcred/regcred/internal/agent"
)

// Progress is the state of a rollout as a single word.
type Progress string

const (
	ProgressDone    Progress = "done"
	ProgressRunning Progress = "running"
	ProgressStopped Progress = "stopped" // maxUnavailable is reached, and none of the unavailable nodes is progressing
)

// Rollout is the progress of a DaemonSet's rollout.
type Rollout struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Owner     string   `json:"owner,omitempty"`    // NAMESPACE/RELEASE of the chart
	Revision  string   `json:"revision,omitempty"` // the name of the desired ConfigMap
	Desired   int      `json:"desired"`            // nodes that should have a pod
	Ready     int      `json:"ready"`
	Outdated  int      `json:"behind"` // number of pods from an older version
	Progress  Progress `json:"progress"`
	StoppedBy []string `json:"stoppedBy,omitempty"` // nodes that stop the rollout
}

// isOutdated reports whether a pod is from an older version of its DaemonSet.
func isOutdated(pod *corev1.Pod, ds *appsv1.DaemonSet) bool {
	template := &ds.Spec.Template.Spec
	return agentFlagValue(&pod.Spec, "--revision") != agentFlagValue(template, "--revision") || agentImage(&pod.Spec) != agentImage(template)
}

func newRollout(ds *appsv1.DaemonSet, nodes []Node) Rollout {
	r := Rollout{
		Namespace: ds.Namespace, Name: ds.Name, Progress: ProgressDone,
		Owner: agentFlagValue(&ds.Spec.Template.Spec, "--owner"), Revision: agentFlagValue(&ds.Spec.Template.Spec, "--revision"),
		Desired: int(ds.Status.DesiredNumberScheduled), Ready: int(ds.Status.NumberReady),
	}
	moving := ds.Status.ObservedGeneration < ds.Generation
	for _, n := range nodes {
		if n.Outdated {
			r.Outdated++
		}
		ready := n.Pod != nil && n.Pod.Ready
		switch {
		case ready:
		case n.State == State(agent.PhaseStarting) || n.State == State(agent.PhaseApplying):
			moving = true
		default:
			r.StoppedBy = append(r.StoppedBy, n.Name)
		}
	}
	slices.Sort(r.StoppedBy)
	switch {
	case r.Outdated == 0:
		r.StoppedBy = nil
		if moving {
			r.Progress = ProgressRunning
		}
	case !moving && len(r.StoppedBy) >= maxUnavailable(ds):
		r.Progress = ProgressStopped
	default:
		r.Progress, r.StoppedBy = ProgressRunning, nil
	}
	return r
}

// maxUnavailable returns how many of a DaemonSet's pods may be unavailable during a
// rollout. Percentages are rounded up, as in pkg/controller/daemon/update.go.
func maxUnavailable(ds *appsv1.DaemonSet) int {
	most := intstr.FromInt32(1)
	if r := ds.Spec.UpdateStrategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
		most = *r.MaxUnavailable
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, int(ds.Status.DesiredNumberScheduled), true)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// shouldRunOn reports whether a DaemonSet should have a pod on a node.
func shouldRunOn(ds *appsv1.DaemonSet, node *corev1.Node) bool {
	spec := &ds.Spec.Template.Spec
	match, err := nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity).Match(node)
	if err != nil || !match || spec.NodeName != "" && spec.NodeName != node.Name {
		return false
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !isTolerated(spec.Tolerations, taint) {
			return false
		}
	}
	return true
}

// alwaysToleratedTaints lists the taints that each pod of a DaemonSet tolerates
// (pkg/controller/daemon/util/daemonset_util.go).
var alwaysToleratedTaints = []string{
	corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeDiskPressure,
	corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable,
}

func isTolerated(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	if slices.Contains(alwaysToleratedTaints, taint.Key) {
		return true
	}
	for _, t := range tolerations {
		switch {
		case t.Effect != "" && t.Effect != taint.Effect:
		case t.Key == "" && t.Operator == corev1.TolerationOpExists:
			return true
		case t.Key == taint.Key && (t.Operator == corev1.TolerationOpExists || t.Value == taint.Value):
			return true
		}
	}
	return false
}

// missingPod returns the state of a node on which a DaemonSet has no pod.
func missingPod(ds *appsv1.DaemonSet, node *corev1.Node) Node {
	n := Node{
		Name: node.Name, Owner: agentFlagValue(&ds.Spec.Template.Spec, "--owner"), State: StateNoPod,
		Reason: "the DaemonSet has no pod on this node: kubectl describe daemonset -n " + ds.Namespace + " " + ds.Name + " says why",
		Since:  node.CreationTimestamp.Time,
	}
	if n.Since.Before(ds.CreationTimestamp.Time) {
		n.Since = ds.CreationTimestamp.Time
	}
	n.setNodeFields(node)
	if n.Ready == string(corev1.ConditionUnknown) {
		n.setUnreachable(node)
		n.Reason += "; it has no pod"
	}
	return n
}

// daemonSetKey returns a key that identifies a pod's DaemonSet. It contains the namespace,
// because a DaemonSet is in the namespace of its pods.
func daemonSetKey(pod *corev1.Pod) string {
	o := metav1.GetControllerOf(pod)
	if o == nil {
		return pod.Namespace + "/" + pod.Labels["app.kubernetes.io/instance"]
	}
	return pod.Namespace + "/" + string(o.UID)
}
