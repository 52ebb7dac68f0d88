// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RunPod creates a pod that is already assigned to the kubelet's node. The pod is deleted
// when the test ends.
func (c *ControlPlane) RunPod(t testing.TB, k *Kubelet, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	pod = pod.DeepCopy()
	pod.Spec.NodeName = k.Options.Name
	pod, err := c.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.deletePod(pod) })
	return pod
}

// deletePod starts to delete a pod. It ignores errors: the pod or the API server may
// already be gone.
func (c *ControlPlane) deletePod(pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
}

// WaitRunning waits until all containers of a pod are running, and returns the pod.
func (c *ControlPlane) WaitRunning(t testing.TB, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	var now *corev1.Pod
	Eventually(t, podTimeout, func(ctx context.Context) (err error) {
		if now, err = c.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		return checkRunning(now)
	})
	return now
}

// PodEvents returns a pod's events so far, each as "Reason: message".
func (c *ControlPlane) PodEvents(ctx context.Context, pod *corev1.Pod) (texts []string, err error) {
	list, err := c.Client.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(pod.UID),
	})
	if err != nil {
		return nil, err
	}
	for _, e := range list.Items {
		texts = append(texts, e.Reason+": "+e.Message)
	}
	return texts, nil
}

// WaitEvent waits for an event of a pod that contains all texts, and returns it.
func (c *ControlPlane) WaitEvent(t testing.TB, pod *corev1.Pod, texts ...string) (event string) {
	t.Helper()
	Eventually(t, podTimeout, func(ctx context.Context) error {
		all, err := c.PodEvents(ctx, pod)
		if err != nil {
			return err
		}
		for _, event = range all {
			if containsAll(event, texts) {
				return nil
			}
		}
		return fmt.Errorf("pod %s/%s has no event with %q:\n%s", pod.Namespace, pod.Name, texts, maskLines(all))
	})
	return event
}
