// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/node"
)

// testCluster checks the test cluster itself. Controllers run pods with addresses and logs on two
// nodes. A rollout updates one node at a time. A node that is shut down becomes not ready, and
// becomes ready again after it boots.
func (f *clusterFleet) testCluster(t *testing.T) {
	c := f.Cluster
	image, next := f.images.PushApp(t, "team/app", "v1"), f.images.PushApp(t, "team/app", "v2")
	t.Run("a DaemonSet rolls one node at a time", func(t *testing.T) { testDaemonSet(t, c, image, next) })
	t.Run("a Job completes, and asks the API server as the service kubernetes", func(t *testing.T) { testJob(t, c, image) })
	t.Run("a node goes and comes", func(t *testing.T) {
		a := c.Machine(t, nodeA)
		a.Halt(t)
		c.WaitNodeReady(t, nodeA, corev1.ConditionUnknown)
		c.WaitNodeReady(t, nodeB, corev1.ConditionTrue)
		a.Boot(t)
		c.WaitNodeReady(t, nodeA, corev1.ConditionTrue)
	})
}

func testDaemonSet(t *testing.T, c *node.Cluster, image, next string) {
	sets := c.Client.AppsV1().DaemonSets("try")
	labels := map[string]string{"app": "app"}
	pod := node.NewPod("try", "app", image)
	pod.Spec.HostNetwork, pod.Spec.ImagePullSecrets = false, []corev1.LocalObjectReference{{Name: "pull"}}
	pod.Spec.Containers[0].Args = []string{"say", "hello"}
	one := intstr.FromInt32(1)
	set, err := sets.Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: appsv1.DaemonSetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: labels},
			Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &one}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitRollout(t, c, set)
	pods := listPods(t, c, "app=app")
	for _, p := range pods {
		if said, err := c.Client.CoreV1().Pods("try").GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(t.Context()); err != nil || string(said) != "hello\n" {
			t.Errorf("the log of %s on %s is %q: %v", p.Name, p.Spec.NodeName, said, err)
		}
		if !strings.HasPrefix(p.Status.PodIP, "203.0.113.") {
			t.Errorf("pod %s has address %q", p.Name, p.Status.PodIP)
		}
	}

	seen := watchReady(t, c, "app=app")
	patch := []byte(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "` + next + `"}]`)
	if set, err = sets.Patch(t.Context(), "app", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitRollout(t, c, set)
	if least := seen(); least != 1 {
		t.Errorf("at least %d pods were ready, want 1", least)
	}
	must.Do(t, sets.Delete(t.Context(), "app", metav1.DeleteOptions{}))
}

func testJob(t *testing.T, c *node.Cluster, image string) {
	pod := node.NewPod("try", "job", image)
	pod.Spec.HostNetwork, pod.Spec.AutomountServiceAccountToken, pod.Spec.RestartPolicy = false, nil, corev1.RestartPolicyNever
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	pod.Spec.Containers[0].Args = []string{"ask"}
	job := must.Get(c.Client.BatchV1().Jobs("try").Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod.Spec}, BackoffLimit: new(int32(0))},
	}, metav1.CreateOptions{}))(t)
	node.Eventually(t, time.Minute, func(ctx context.Context) error {
		now, err := c.Client.BatchV1().Jobs("try").Get(ctx, job.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if now.Status.Succeeded != 1 {
			return fmt.Errorf("%+v", now.Status)
		}
		return nil
	})
	pods := listPods(t, c, "job-name=job")
	said, err := c.Client.CoreV1().Pods("try").GetLogs(pods[0].Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(said), node.ServerVersion()) {
		t.Errorf("the job says %q: %v", said, err)
	}
}

// waitRollout waits until a DaemonSet is rolled out, like "kubectl rollout status".
func waitRollout(t *testing.T, c *node.Cluster, set *appsv1.DaemonSet) {
	t.Helper()
	done := false
	defer func() {
		if !done {
			logPods(t, c, metav1.FormatLabelSelector(set.Spec.Selector))
		}
	}()
	node.Eventually(t, 2*time.Minute, func(ctx context.Context) error {
		now, err := c.Client.AppsV1().DaemonSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := now.Status
		if s.ObservedGeneration < now.Generation || s.DesiredNumberScheduled == 0 || s.UpdatedNumberScheduled < s.DesiredNumberScheduled || s.NumberAvailable < s.DesiredNumberScheduled {
			return fmt.Errorf("DaemonSet %s: %d of %d pods are updated, %d available", now.Name, s.UpdatedNumberScheduled, s.DesiredNumberScheduled, s.NumberAvailable)
		}
		return nil
	})
	done = true
}

// logPods logs the pods' output and events.
func logPods(t *testing.T, c *node.Cluster, labels string) {
	t.Helper()
	for _, p := range listPods(t, c, labels) {
		said, err := c.Client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{TailLines: new(int64(10)), Container: p.Spec.Containers[0].Name}).DoRaw(t.Context())
		events, _ := c.PodEvents(t.Context(), &p)
		t.Logf("%s on %s, %s:\n%s%v\n%s", p.Name, p.Spec.NodeName, p.Status.Phase, said, err, strings.Join(events, "\n"))
	}
}

// listPods returns the pods with these labels, sorted by node.
func listPods(t *testing.T, c *node.Cluster, labels string) []corev1.Pod {
	t.Helper()
	list := must.Get(c.Client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: labels}))(t)
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	return list.Items
}

// watchReady watches the pods with these labels, all of which must be ready. The returned
// function stops the watch and returns the lowest number of nodes that had a ready pod.
func watchReady(t *testing.T, c *node.Cluster, labels string) (least func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready := map[string]string{} // node by pod name
	list := must.Get(c.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: labels}))(t)
	note := func(p *corev1.Pod, gone bool) {
		delete(ready, p.Name)
		if !gone && isReady(p) {
			ready[p.Name] = p.Spec.NodeName
		}
	}
	for i := range list.Items {
		note(&list.Items[i], false)
	}
	fewest := len(ready)
	w, err := c.Client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{LabelSelector: labels, ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	var story strings.Builder
	go func() {
		for e := range w.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok {
				note(p, e.Type == watch.Deleted)
				fewest = min(fewest, len(ready))
				fmt.Fprintf(&story, "%s %s on %s: %s, ready %v, being deleted %v: %d ready\n", time.Now().Format(time.TimeOnly), p.Name, p.Spec.NodeName, e.Type, isReady(p), p.DeletionTimestamp != nil, len(ready))
			}
		}
		if ctx.Err() == nil {
			done <- errors.New("the watch of pods has ended")
		}
		close(done)
	}()
	return func() int {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the pods of %s:\n%s", labels, story.String())
			}
		})
		return fewest
	}
}

// isReady reports whether a pod is ready.
func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
