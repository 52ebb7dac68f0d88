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

// podTimeout is how long a pod may take to get where a test wants it.
const podTimeout = 90 * time.Second

// AddStatic gives the kubelet a static pod.
func (k *Kubelet) AddStatic(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	data, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	// At once: a kubelet reads files that are being written, too.
	if err := os.Rename(writeFile(t, string(data), k.dir, pod.Name+".new"), k.manifest(pod)); err != nil {
		t.Fatal(err)
	}
}

// RemoveStatic takes a static pod away again.
func (k *Kubelet) RemoveStatic(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	if err := os.Remove(k.manifest(pod)); err != nil {
		t.Fatal(err)
	}
}

func (k *Kubelet) manifest(pod *corev1.Pod) string {
	return filepath.Join(k.manifests(), pod.Namespace+"-"+pod.Name+".json")
}

// WaitStaticRunning waits until the containers of a static pod run.
func (k *Kubelet) WaitStaticRunning(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	k.waitStatic(t, pod, running)
}

// WaitStaticWaiting waits until a container of a static pod waits for a reason
// and with a message in which there is this text, and returns both.
func (k *Kubelet) WaitStaticWaiting(t testing.TB, pod *corev1.Pod, text string) (message string) {
	t.Helper()
	k.waitStatic(t, pod, func(p *corev1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && strings.Contains(w.Reason+": "+w.Message, text) {
				message = w.Reason + ": " + w.Message
				return nil
			}
		}
		return fmt.Errorf("no container of pod %s/%s waits with %q: %s", p.Namespace, p.Name, text, states(p))
	})
	return message
}

// waitStatic waits until check finds nothing wrong with a static pod.
func (k *Kubelet) waitStatic(t testing.TB, pod *corev1.Pod, check func(*corev1.Pod) error) {
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
