// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package compare

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/node"
)

// podTimeout is the timeout for each wait. It is long enough for a busy machine.
const podTimeout = 5 * time.Minute

// newPod pushes the image team/NAME to a host's registry and returns a pod that runs it.
func (c *kubeletNode) newPod(t *testing.T, host, name string) *corev1.Pod {
	t.Helper()
	return node.NewPod("team", name, c.registry[host].PushApp(t, "team/"+name, "v1"))
}

// runPod creates a pod on the node.
func (c *kubeletNode) runPod(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	return c.control.RunPod(t, c.kubelet, pod)
}

// runPods creates the pods concurrently and returns when it started.
func (c *kubeletNode) runPods(t *testing.T, pods []*corev1.Pod) (began time.Time) {
	t.Helper()
	began = time.Now()
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(8)
	for _, pod := range pods {
		g.Go(func() error {
			pod.Spec.NodeName = c.kubelet.Options.Name
			_, err := c.control.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
	}
	must.Do(t, g.Wait())
	return began
}

// waitPods waits until n pods run and returns the time at which the last one started.
func (c *kubeletNode) waitPods(t *testing.T, n int) time.Time {
	t.Helper()
	node.Eventually(t, podTimeout, func(ctx context.Context) error {
		list, err := c.control.Client.CoreV1().Pods("team").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		run := 0
		for i := range list.Items {
			if isRunning(&list.Items[i]) {
				run++
			}
		}
		if run < n {
			return fmt.Errorf("%d of %d pods run", run, n)
		}
		return nil
	})
	return time.Now()
}

func isRunning(pod *corev1.Pod) bool {
	s := pod.Status.ContainerStatuses
	return len(s) > 0 && s[0].State.Running != nil
}

// podOutcome is the result of a pod's first pull.
type podOutcome struct {
	pulled bool
	event  string // event of the failure; "" if the pull succeeded
	after  time.Duration
}

func (o podOutcome) String() string {
	if o.pulled {
		return fmt.Sprintf("pulled after %.1f s", o.after.Seconds())
	}
	return fmt.Sprintf("failed after %.1f s: %s", o.after.Seconds(), o.event)
}

// waitPod waits until a pod runs or its pull has failed, and returns the outcome.
func (c *kubeletNode) waitPod(t *testing.T, pod *corev1.Pod, began time.Time) (o podOutcome) {
	t.Helper()
	node.Eventually(t, podTimeout, func(ctx context.Context) error {
		now, err := c.control.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		failures, err := c.pullFailures(ctx, pod)
		if err != nil {
			return err
		}
		switch {
		case len(failures) > 0:
			o = podOutcome{event: failures[0]}
		case isRunning(now):
			o = podOutcome{pulled: true}
		default:
			return fmt.Errorf("pod %s neither runs nor fails: %s", pod.Name, now.Status.Phase)
		}
		o.after = time.Since(began)
		return nil
	})
	canary.AssertAbsent(t, "the pod's event", o.event)
	return o
}

// pullFailures returns the events that explain why a pod's image was not pulled.
func (c *kubeletNode) pullFailures(ctx context.Context, pod *corev1.Pod) (texts []string, err error) {
	events, err := c.control.PodEvents(ctx, pod)
	for _, e := range events {
		if text, ok := strings.CutPrefix(e, "Failed: "); ok && !isStateEvent(text) {
			texts = append(texts, text)
		}
	}
	return texts, err
}

// isStateEvent reports whether an event only contains a container's state. The kubelet sends such an
// event in addition to the event with the reason.
func isStateEvent(text string) bool {
	return text == "Error: ErrImagePull" || text == "Error: ImagePullBackOff"
}

// pullTimes returns the times at which the registry sent a manifest to the user.
func (c *kubeletNode) pullTimes(host, repo string) (times []time.Time) {
	for _, r := range c.registry[host].ManifestRequests(repo) {
		if r.User == testUser && r.Status == http.StatusOK {
			times = append(times, r.Time)
		}
	}
	return times
}
