// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/helm"
	"github.com/regcred/regcred/upstream/node"
)

// aksMarkerFile is a file that exists only on AKS nodes.
const aksMarkerFile = "/opt/azure/containers/provision.complete"

// testFaults injects common cluster failures into one release, one after the other.
func (f *clusterFleet) testFaults(t *testing.T) {
	step := func(name string, do func(*testing.T)) {
		if t.Failed() {
			return // later steps depend on earlier ones
		}
		t.Run(name, do)
	}
	before := f.describeAllNodeFiles(t)
	a, b := f.Machine(t, nodeA), f.Machine(t, nodeB)
	var r *release
	step("a node that keeps no changes stays out of the way, and says what it wants", func(t *testing.T) {
		b.Run(t, "sh", "-c", "mkdir -p $(dirname "+aksMarkerFile+") && touch "+aksMarkerFile)
		tree := describeNodeFiles(t, b)
		r = f.installRelease(t, "faults", "fleet", chartValues(firstHost))
		killed := r.killAgent(t, a, 0, 500*time.Millisecond)
		r.waitRollout(t)
		t.Logf("node %s: the agent was killed %d times meanwhile", nodeA, killed)
		r.checkInstalled(t, a)
		r.checkStatus(t, nodeB, `"phase":"unsupported"`, "AKS")
		if diff := cmp.Diff(tree, f.describeAllNodeFiles(t)[nodeB]); diff != "" {
			t.Errorf("node %s has changed (-before +after):\n%s", nodeB, diff)
		}
		b.Run(t, "rm", "-r", "/opt/azure")
	})
	step("a pod that is deleted while it installs", func(t *testing.T) {
		for _, after := range []time.Duration{0, 700 * time.Millisecond, 1500 * time.Millisecond} {
			r.deleteAgent(t, nodeB, after)
		}
		r.waitRollout(t)
		node.Eventually(t, time.Minute, func(ctx context.Context) error { return r.statusError(ctx, nodeB, `"phase":"installed"`) })
		r.checkInstalled(t, b)
	})
	step("two releases on one node: the second is refused", func(t *testing.T) {
		currents := f.activeConfigs(t)
		second := f.installRelease(t, "rival", "rival", chartValues(firstHost, laterHost))
		for _, m := range f.Nodes {
			node.Eventually(t, 2*time.Minute, func(ctx context.Context) error { return second.statusError(ctx, m.Name(), "faults/fleet") })
		}
		f.helm.Run(t, "uninstall", second.name, "--namespace", second.namespace)
		f.checkUnchanged(t, currents, f.activeConfigs(t))
		r.waitRollout(t)
	})
	step("the API server is away during a rollout", func(t *testing.T) {
		f.helm.Run(t, "upgrade", r.name, helm.ChartDir(t), "--namespace", r.namespace, "--values", valuesFile(t, chartValues(firstHost, laterHost)))
		f.Stop()
		f.Start(t)
		r.waitRollout(t)
		for _, m := range f.Nodes {
			r.checkInstalled(t, m)
		}
	})
	step("a node is away during two rollouts", func(t *testing.T) {
		b.Halt(t)
		f.WaitNodeReady(t, nodeB, corev1.ConditionUnknown)
		for _, v := range []map[string]any{chartValues(firstHost), mergeValues(chartValues(laterHost), map[string]any{"reserve": []string{firstHost}})} {
			f.helm.Run(t, "upgrade", r.name, helm.ChartDir(t), "--namespace", r.namespace, "--values", valuesFile(t, v))
		}
		b.Boot(t)
		f.WaitNodeReady(t, nodeB, corev1.ConditionTrue)
		r.waitRollout(t)
		for name, current := range f.activeConfigs(t) {
			if !strings.Contains(current, providerForHost(laterHost)) || strings.Contains(current, providerForHost(firstHost)) {
				t.Errorf("node %s has:\n%s", name, current)
			}
		}
	})
	step("uninstalled while a node is away: it is named; and once more when it is back", func(t *testing.T) {
		r.upgradeRelease(t, mergeValues(chartValues(laterHost), map[string]any{"reserve": []string{firstHost}, "uninstall": map[string]any{"timeoutSeconds": 30}}))
		b.Halt(t)
		f.WaitNodeReady(t, nodeB, corev1.ConditionUnknown)
		begin := time.Now()
		_, stderr, err := f.helm.Output(t.Context(), "uninstall", r.name, "--namespace", r.namespace)
		if err == nil {
			t.Fatal("helm uninstall takes no notice of a node that is away")
		}
		t.Logf("helm uninstall ends after %v:\n%s", time.Since(begin).Round(time.Second), stderr)
		if !strings.Contains(stderr, nodeB) {
			t.Errorf("it does not name %s: %s", nodeB, stderr)
		}
		b.Boot(t)
		f.WaitNodeReady(t, nodeB, corev1.ConditionTrue)
		f.helm.Run(t, "uninstall", r.name, "--namespace", r.namespace)
		r.checkRemoved(t)
		f.checkNodeFiles(t, before)
	})
}

// checkInstalled checks that "regcred status" finds no change to the installation on a machine.
func (r *release) checkInstalled(t *testing.T, m *node.Machine) {
	t.Helper()
	m.Run(t, "sh", "-c", "$(ls -t /var/lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/*/host/regcred | head -n1) status")
}

// checkStatus checks that the last status line of a node's agent contains all texts.
func (r *release) checkStatus(t *testing.T, node string, texts ...string) {
	t.Helper()
	if err := r.statusError(t.Context(), node, texts...); err != nil {
		t.Error(err)
	}
}

// statusError returns an error if the last status line does not contain all texts.
func (r *release) statusError(ctx context.Context, node string, texts ...string) error {
	pod, err := r.findAgentPod(ctx, node)
	if err != nil {
		return err
	}
	line, err := r.lastStatus(ctx, pod)
	if err != nil {
		return err
	}
	for _, text := range texts {
		if !strings.Contains(line, text) {
			return fmt.Errorf("the agent of %s does not say %q: %s", node, text, line)
		}
	}
	return nil
}

// lastStatus returns the agent's last status line. The runtime may log earlier stderr lines after
// it.
func (f *clusterFleet) lastStatus(ctx context.Context, pod *corev1.Pod) (line string, err error) {
	log, err := f.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: new(int64(20)), Container: "agent"}).DoRaw(ctx)
	for text := range strings.Lines(string(log)) {
		if strings.HasPrefix(text, "{") {
			line = text
		}
	}
	return line, err
}

// killAgent kills the agent's process on a machine several times, each time after it has run for
// one of these durations. It returns how often it killed a process.
func (r *release) killAgent(t *testing.T, m *node.Machine, after ...time.Duration) (killed int) {
	t.Helper()
	for _, d := range after {
		node.Eventually(t, 2*time.Minute, func(ctx context.Context) error {
			return m.Command(ctx, "sh", "-c", findAgentScript+"[ -n \"$found\" ]").Run()
		})
		waitDuration(t, d)
		if m.Command(t.Context(), "sh", "-c", findAgentScript+"kill -KILL $found").Run() == nil {
			killed++
		}
	}
	return killed
}

// findAgentScript is a shell script that finds the agent's process on the machine.
const findAgentScript = `found=
for dir in /proc/[0-9]*; do
	case $(tr '\0' ' ' <$dir/cmdline 2>/dev/null) in
	"/bin/regcred agent run "*) found="$found ${dir#/proc/}" ;;
	esac
done
`

// deleteAgent deletes a node's agent pod once the pod has existed for a while.
func (r *release) deleteAgent(t *testing.T, name string, after time.Duration) {
	t.Helper()
	var pod *corev1.Pod
	node.Eventually(t, time.Minute, func(ctx context.Context) (err error) {
		if pod, err = r.findAgentPod(ctx, name); err != nil {
			return err
		}
		if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Running == nil {
			return fmt.Errorf("pod %s does not run", pod.Name)
		}
		return nil
	})
	waitDuration(t, after)
	must.Do(t, r.Client.CoreV1().Pods(r.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
}

// waitDuration waits before a fault is injected. The tests do not depend on the exact time.
func waitDuration(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
