// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewPod returns a pod that runs an image of [Registry.PushApp], with imagePullPolicy
// Always. A test may change the pod before running it.
func NewPod(namespace, name, image string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			HostNetwork: true, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "app", Image: image, ImagePullPolicy: corev1.PullAlways}},
		},
	}
}

// checkRunning returns an error if a container of the pod is not running.
func checkRunning(pod *corev1.Pod) error {
	n := 0
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil {
			n++
		}
	}
	if n < len(pod.Spec.Containers) {
		return fmt.Errorf("pod %s/%s does not run: %s", pod.Namespace, pod.Name, describeStates(pod))
	}
	return nil
}

// describeStates describes a pod's phase and container states for error messages.
func describeStates(pod *corev1.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", pod.Status.Phase, pod.Status.Message)
	for _, c := range pod.Status.ContainerStatuses {
		fmt.Fprintf(&b, "; %s: %s", c.Name, c.State.String())
	}
	return strings.TrimSpace(maskLines([]string{b.String()}))
}
