// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/apiserver"
)

// agentStatus returns the status of the agent's container, or nil.
func agentStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	all := pod.Status.ContainerStatuses
	if i := slices.IndexFunc(all, func(s corev1.ContainerStatus) bool { return s.Name == agentContainerName }); i >= 0 {
		return &all[i]
	}
	return nil
}

// isAgentRunning reports whether the agent is running, according to the API server.
func isAgentRunning(pod *corev1.Pod) bool {
	s := agentStatus(pod)
	return s != nil && s.State.Running != nil
}

// podWaitReason returns why a pod is not running: the reason of the container that
// blocks it, or the pod's own reason. It returns "" and the start if the pod is running.
func podWaitReason(pod *corev1.Pod) (reason string, since time.Time) {
	if s := agentStatus(pod); s != nil && s.State.Running != nil {
		return "", s.State.Running.StartedAt.Time
	}
	since = pod.CreationTimestamp.Time
	if c, ready := podCondition(pod, corev1.PodReady); c != nil && !ready {
		since = c.LastTransitionTime.Time
	}
	switch c, scheduled := podCondition(pod, corev1.PodScheduled); {
	case pod.Status.Phase == corev1.PodFailed:
		return oneLine(strings.Trim(fmt.Sprintf("its pod has failed: %s: %s", pod.Status.Reason, pod.Status.Message), ": ")), since
	case c != nil && !scheduled:
		return oneLine(fmt.Sprintf("its pod is not scheduled: %s", cmp.Or(c.Message, c.Reason))), c.LastTransitionTime.Time
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if text := blockingReason(&s); text != "" {
			return oneLine(text), since
		}
	}
	return "its pod has not started yet", since
}

// blockingReason returns why a container blocks its pod, or "" if it does not. A container
// that only waits for init containers does not block its pod.
func blockingReason(s *corev1.ContainerStatus) string {
	var text string
	switch w, ended := s.State.Waiting, s.State.Terminated; {
	case w != nil && w.Reason != "PodInitializing":
		text = w.Reason
		if w.Message != "" {
			text += ": " + w.Message
		}
	case ended != nil && ended.ExitCode != 0:
		text = "it ended"
	case w == nil && ended == nil && s.State.Running != nil && s.Name != agentContainerName:
		return fmt.Sprintf("container %s runs first", s.Name)
	default:
		return ""
	}
	if s.Name != agentContainerName {
		text = fmt.Sprintf("container %s: %s", s.Name, text)
	}
	last := cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated)
	if last != nil && last.ExitCode != 0 {
		text += fmt.Sprintf("; exit code %d", last.ExitCode)
		if reported := lastLine(last.Message); reported != "" {
			text += ": " + reported
		}
	}
	return text
}

// lastLine returns the last line of a container's termination message.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) (c *corev1.PodCondition, is bool) {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c, c.Status == corev1.ConditionTrue
		}
	}
	return nil, false
}

// agentFlagValue returns the value of an agent flag, given as "--name VALUE" or
// "--name=VALUE".
func agentFlagValue(spec *corev1.PodSpec, name string) string {
	c := agentContainer(spec)
	args := slices.Concat(c.Command, c.Args)
	for i, a := range args {
		if value, ok := strings.CutPrefix(a, name+"="); ok {
			return value
		}
		if a == name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

func agentImage(spec *corev1.PodSpec) string { return agentContainer(spec).Image }

// agentContainer returns the agent's container, or an empty one.
func agentContainer(spec *corev1.PodSpec) (c corev1.Container) {
	if i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == agentContainerName }); i >= 0 {
		c = spec.Containers[i]
	}
	return c
}

// oneLine returns s as a single printable line.
func oneLine(s string) string { return strings.Join(strings.Fields(apiserver.CleanMessage(s)), " ") }
