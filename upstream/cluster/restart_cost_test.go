// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/node"
)

// TestRestartCost measures the cost of restarting a kubelet (with -speed -v). It verifies that a
// switch of generations costs nothing: the node's pods stay ready.
func TestRestartCost(t *testing.T) {
	if !*runSpeedTests {
		t.Skip("only with -speed: it measures, and takes its time for it")
	}
	node.SkipUnlessSupported(t)
	l := startLifecycleMachine(t, node.MachineOptions{})
	l.install(t, 0, "first.yaml", "--reserve", laterHost, "--restart", "--stable=2s")
	probed := l.startProbedPod(t)
	configs := []string{"both.yaml", "first.yaml"}
	flip := func(i int) { l.install(t, 0, configs[i%2]) }
	restart := func(int) { l.m.Restart(t, "kubelet"); node.Eventually(t, restartTimeout, l.m.CheckHealthy) }
	for _, change := range []struct {
		name string
		make func(int)
		lost bool // whether the pod stops being ready
	}{{"flip", flip, false}, {"restart", restart, true}} {
		var took, pull, unready []time.Duration
		for i := range 5 {
			watch := l.startUnreadyMeasurement(t, probed)
			begin := time.Now()
			change.make(i)
			took = append(took, time.Since(begin))
			l.checkPull(t, firstHost)
			pull = append(pull, time.Since(begin))
			unready = append(unready, watch())
		}
		t.Logf("%s: %v until done and healthy; %v until a pull from then on has a running pod; for %v the kubelet did not call a pod ready (medians of %d)",
			change.name, median(took), median(pull), median(unready), len(took))
		if lost := slices.Max(unready) > 0; lost != change.lost {
			t.Errorf("%s: a pod was not called ready for %v", change.name, unready)
		}
	}
}

// startProbedPod starts a pod with a readiness probe that connects to a port of the test.
func (l *lifecycleMachine) startProbedPod(t *testing.T) *corev1.Pod {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			conn.Close()
		}
	}()
	pod := node.NewPod("default", "probed", l.registry[firstHost].PushApp(t, "team/probed", "v1"))
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
		TCPSocket: &corev1.TCPSocketAction{Host: "127.0.0.1", Port: intstr.FromInt(listener.Addr().(*net.TCPAddr).Port)},
	}}
	l.m.Kubelet.AddStaticPod(t, pod)
	l.m.Kubelet.WaitStaticPodRunning(t, pod)
	node.Eventually(t, restartTimeout, func(ctx context.Context) error { return l.checkPodReady(ctx, pod) })
	return pod
}

// checkPodReady returns an error if the kubelet does not report a pod as ready.
func (l *lifecycleMachine) checkPodReady(ctx context.Context, pod *corev1.Pod) error {
	pods, err := l.m.Kubelet.Pods(ctx)
	if err != nil {
		return err
	}
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			if p.Name == pod.Name+"-node" && c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
	}
	return errors.New("the pod is not ready")
}

// startUnreadyMeasurement polls a pod until end is called and the pod is ready. end returns how long the pod
// was not ready.
func (l *lifecycleMachine) startUnreadyMeasurement(t *testing.T, pod *corev1.Pod) (end func() time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	var lost time.Duration
	var watching sync.WaitGroup
	watching.Go(func() {
		for last := time.Now(); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			now, err := time.Now(), l.checkPodReady(t.Context(), pod)
			if err != nil {
				lost += time.Since(last)
			}
			last = now
		}
	})
	return func() time.Duration {
		node.Eventually(t, restartTimeout, func(ctx context.Context) error { return l.checkPodReady(ctx, pod) })
		cancel()
		watching.Wait()
		return lost
	}
}
