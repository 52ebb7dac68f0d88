// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// podTimeout limits how long a test waits for a pod to reach a state.
const podTimeout = 90 * time.Second

// AddStaticPod adds a static pod.
func (k *Kubelet) AddStaticPod(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	data, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	// kubelet: it also reads files that are still being written, so rename the file.
	if err := os.Rename(writeFile(t, string(data), k.dir, pod.Name+".new"), k.manifestPath(pod)); err != nil {
		t.Fatal(err)
	}
}

// RemoveStaticPod removes a static pod.
func (k *Kubelet) RemoveStaticPod(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	if err := os.Remove(k.manifestPath(pod)); err != nil {
		t.Fatal(err)
	}
}

func (k *Kubelet) manifestPath(pod *corev1.Pod) string {
	return filepath.Join(k.manifestDir(), pod.Namespace+"-"+pod.Name+".json")
}

// WaitStaticPodRunning waits until all containers of a static pod are running.
func (k *Kubelet) WaitStaticPodRunning(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	k.waitStaticPod(t, pod, checkRunning)
}

// WaitStaticPodWaiting waits until a container of a static pod is in state waiting and its "Reason:
// message" contains text. It returns the reason and message.
func (k *Kubelet) WaitStaticPodWaiting(t testing.TB, pod *corev1.Pod, text string) (message string) {
	t.Helper()
	k.waitStaticPod(t, pod, func(p *corev1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && strings.Contains(w.Reason+": "+w.Message, text) {
				message = w.Reason + ": " + w.Message
				return nil
			}
		}
		return fmt.Errorf("no container of pod %s/%s waits with %q: %s", p.Namespace, p.Name, text, describeStates(p))
	})
	return message
}

// waitStaticPod waits until check returns nil for a static pod.
func (k *Kubelet) waitStaticPod(t testing.TB, pod *corev1.Pod, check func(*corev1.Pod) error) {
	t.Helper()
	Eventually(t, podTimeout, func(ctx context.Context) error {
		pods, err := k.Pods(ctx)
		if err != nil {
			return err
		}
		for i := range pods {
			if pods[i].Namespace == pod.Namespace && pods[i].Name == pod.Name+"-"+k.Options.Name {
				return check(&pods[i])
			}
		}
		return fmt.Errorf("the kubelet knows no pod %s/%s", pod.Namespace, pod.Name)
	})
}
