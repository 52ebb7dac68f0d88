// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/kube"
)

// testCluster is an in-process API server with a chart's objects.
type testCluster struct {
	*testkube.Server
	t *testing.T
}

// newTestCluster returns a cluster with a DaemonSet of the release kube-system/regcred.
func newTestCluster(t *testing.T) *testCluster {
	t.Helper()
	api := must.Get(testkube.New(testkube.Options{Pipe: true}))(t)
	t.Cleanup(api.Close)
	c := &testCluster{api, t}
	c.Put("daemonsets", c.daemonSet())
	return c
}

func (c *testCluster) newClient(user string) *Client {
	c.t.Helper()
	transport := &http.Transport{DialContext: c.Dial}
	c.t.Cleanup(transport.CloseIdleConnections)
	return must.Get(New(&rest.Config{Host: c.URL(), BearerToken: c.Token(user), Transport: transport}))(c.t)
}

var agentLabels = map[string]string{
	"app.kubernetes.io/name": "regcred", "app.kubernetes.io/instance": "regcred", "app.kubernetes.io/component": "agent",
}

func agentSpec(revision string) corev1.PodSpec {
	return corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "copy", Image: "registry.example/regcred:1"}},
		Containers: []corev1.Container{{
			Name: "agent", Image: "registry.example/regcred:1", Command: []string{"/bin/regcred", "agent", "run"},
			Args: []string{"--owner", "kube-system/regcred", "--revision=" + revision},
		}},
	}
}

func (c *testCluster) daemonSet() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "regcred", UID: "ds", Labels: agentLabels, CreationTimestamp: metav1.Now()},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: agentLabels}, Spec: agentSpec("regcred-2"),
		}},
	}
}

// addNode adds a ready node. The change functions may modify it.
func (c *testCluster) addNode(name string, change ...func(*corev1.Node)) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now()},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3"},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
			}},
		},
	}
	for _, f := range change {
		f(n)
	}
	c.Put("nodes", n)
}

// makeNotReady makes a node not ready. Its kubelet still responds.
func makeNotReady(n *corev1.Node) {
	n.Status.Conditions[0].Status = corev1.ConditionFalse
	n.Status.Conditions[0].Reason, n.Status.Conditions[0].Message = "KubeletNotReady", "cni plugin not initialized"
}

// makeUnreachable makes a node unreachable, as if its kubelet no longer responded.
func makeUnreachable(n *corev1.Node) {
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	n.Status.Conditions[0].Reason, n.Status.Conditions[0].Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
}

// addAgentPod adds the pod of a running agent to a node. The change functions may modify it.
func (c *testCluster) addAgentPod(node string, change ...func(*corev1.Pod)) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "regcred-" + node, Labels: agentLabels, CreationTimestamp: metav1.Now(),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "regcred", UID: "ds", Controller: new(true)}},
		},
		Spec: agentSpec("regcred-2"),
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Hour))}},
			}},
		},
	}
	p.Spec.NodeName = node
	for _, f := range change {
		f(p)
	}
	c.Put("pods", p)
}

func makeUnready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func withOldRevision(p *corev1.Pod) {
	p.Spec.Containers[0].Args = []string{"--owner", "kube-system/regcred", "--revision=regcred-1"}
}

func withName(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Name, p.UID = name, types.UID(name) }
}

// makeWaiting returns a function that makes a pod wait to start, for the given reason.
func makeWaiting(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		makeUnready(p)
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
}

// makeWaitInInit returns a function that makes a pod wait for its init container, for the given
// reason.
func makeWaitInInit(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		makeWaiting("PodInitializing", "")(p)
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
			Name: "copy", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}
	}
}

// setStatus replaces the log of a node's pod with one status.
func (c *testCluster) setStatus(node string, phase agent.Phase, change ...func(*agent.Status)) {
	c.SetLog("kube-system", "regcred-"+node, statusLine(node, phase, change...)+"\n")
}

// statusLine returns a status as the agent prints it.
func statusLine(node string, phase agent.Phase, change ...func(*agent.Status)) string {
	s := &agent.Status{SchemaVersion: 1, Time: time.Now(), Node: node, Phase: phase, Generation: 2}
	for _, f := range change {
		f(s)
	}
	text, _ := json.Marshal(s)
	return string(text)
}

func withReason(reason string) func(*agent.Status) {
	return func(s *agent.Status) { s.Reason = reason }
}

// formatNodes formats the relevant fields of nodes, one per line.
func formatNodes(nodes []Node) string {
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, "%s %s", n.Name, n.State)
		if n.Done {
			b.WriteString(" well")
		}
		if n.Outdated {
			b.WriteString(" behind")
		}
		if n.Reason != "" {
			b.WriteString(": " + n.Reason)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func checkErrorCode(t *testing.T, err error, code int, texts ...string) {
	t.Helper()
	e, ok := errors.AsType[*kube.Error](err)
	if !ok || e.Code != code {
		t.Fatalf("got the error %v, want one with the code %d", err, code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got the error %v, want %q in it", err, text)
		}
	}
}
