// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/helm"
	"github.com/regcred/regcred/upstream/node"
)

// testDrift changes the installed files on one node as another process would, and kills the node's
// agent while it rolls back an install.
func (f *clusterFleet) testDrift(t *testing.T) {
	before := f.describeAllNodeFiles(t)
	a := f.Machine(t, nodeA)
	alone := map[string]any{"nodeSelector": map[string]any{"kubernetes.io/hostname": nodeA}}
	r := f.installRelease(t, "drift", "drift", mergeValues(chartValues(firstHost), alone))
	r.waitRollout(t)
	t.Run("what is spoilt is mended, and the kubelet is not restarted", func(t *testing.T) { r.testRepairDrift(t, a) })
	if t.Failed() {
		return
	}
	t.Run("killed while an install goes back: it is not made again", func(t *testing.T) {
		bad := mergeValues(chartValues(firstHost, otherHost), alone)
		bad["probe"] = map[string]any{"image": firstHost + "/team/absent:v1"}
		r.testKilledDuringRollback(t, a, bad)
	})
	f.helm.Run(t, "rollback", r.name, "--namespace", r.namespace)
	r.waitRollout(t)
	t.Run("on more nodes: the first one is not touched", func(t *testing.T) {
		kubelet, starts := f.kubeletProcesses(t)[nodeA], kubeletStarts(t, a)
		r.upgradeRelease(t, chartValues(firstHost))
		if now := f.kubeletProcesses(t)[nodeA]; now != kubelet || kubeletStarts(t, a) != starts {
			t.Errorf("the kubelet was %s, and is %s", kubelet, now)
		}
		r.checkInstalled(t, f.Machine(t, nodeB))
	})
	f.helm.Run(t, "uninstall", r.name, "--namespace", r.namespace)
	r.checkRemoved(t)
	f.checkNodeFiles(t, before)
}

// spoil, theirs and removeFile are shell commands that change /var/lib/regcred as another process
// would. spoil replaces a program and deletes the files that the kubelet reads and runs. theirs
// replaces the configuration.
const (
	damageFilesScript     = "cd /var/lib/regcred && rm regcred-credential-provider kubelet/bin/regcred-credential-provider kubelet/config/* && printf '#!/bin/sh\\n' >regcred-credential-provider && chmod 755 regcred-credential-provider"
	overwriteConfigScript = "cd /var/lib/regcred/kubelet/config && echo '{}' >$(ls)"
	removeFileScript            = "rm /var/lib/regcred/kubelet/config/*"
)

func (r *release) testRepairDrift(t *testing.T, m *node.Machine) {
	kubelets, installed := r.kubeletProcesses(t), describeNodeFiles(t, m)
	asInstalled := func(mended int) {
		t.Helper()
		node.Eventually(t, 4*time.Minute, func(ctx context.Context) error {
			return r.statusError(ctx, nodeA, `"phase":"installed"`, fmt.Sprintf(`"mended":%d`, mended))
		})
		r.checkUnchanged(t, kubelets, r.kubeletProcesses(t))
		if diff := cmp.Diff(installed, describeNodeFiles(t, m)); diff != "" {
			t.Errorf("the node is not as it was installed (-before +after):\n%s", diff)
		}
		r.checkInstalled(t, m)
		r.checkMetrics(t, fmt.Sprintf("regcred_node_mended_total %d\n", mended), "regcred_node_drift 0\n", `regcred_node_phase{phase="installed"} 1`+"\n")
	}
	m.Run(t, "sh", "-c", damageFilesScript)
	asInstalled(1)
	r.checkLog(t, "mended: ")
	m.Run(t, "sh", "-c", overwriteConfigScript)
	node.Eventually(t, 4*time.Minute, func(ctx context.Context) error {
		return r.statusError(ctx, nodeA, `"phase":"drifted"`, "90-regcred.json already exists and differs from regcred's file (move it away)")
	})
	r.checkMetrics(t, "regcred_node_drift 1\n", `regcred_node_phase{phase="drifted"} 1`+"\n")
	node.Eventually(t, time.Minute, func(ctx context.Context) error {
		pod, err := r.findAgentPod(ctx, nodeA)
		if err != nil {
			return err
		}
		if isReady(pod) {
			err = fmt.Errorf("pod %s is ready", pod.Name) // testBadChange checks the pod's events
		}
		return err
	})
	m.Run(t, "sh", "-c", removeFileScript)
	asInstalled(2)
}

// checkLog checks that a line of the agent's log contains text.
func (r *release) checkLog(t *testing.T, text string) {
	t.Helper()
	pod := must.Get(r.findAgentPod(t.Context(), nodeA))(t)
	said, err := r.Client.CoreV1().Pods(r.namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: "agent"}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(said), text) {
		t.Errorf("the log has no %q: %v\n%s", text, err, said)
	}
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, text) {
			t.Logf("%s", line)
		}
	}
}

// checkMetrics checks that the agent's metrics contain these lines.
func (r *release) checkMetrics(t *testing.T, lines ...string) {
	t.Helper()
	pod := must.Get(r.findAgentPod(t.Context(), nodeA))(t)
	metrics := scrapeMetrics(t, pod.Status.PodIP)
	for _, want := range lines {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %q in:\n%s", want, metrics)
		}
	}
}

// testKilledDuringRollback checks that the kubelet is restarted only twice for a bad change: for the change
// and for its rollback. Killing the agent's container must not cause more restarts.
func (r *release) testKilledDuringRollback(t *testing.T, m *node.Machine, bad map[string]any) {
	restarts, currents := kubeletStarts(t, m), readActiveConfig(t, m)
	old := must.Get(r.findAgentPod(t.Context(), nodeA))(t)
	r.helm.Run(t, "upgrade", r.name, helm.ChartDir(t), "--namespace", r.namespace, "--values", valuesFile(t, bad))
	node.Eventually(t, 2*time.Minute, func(ctx context.Context) error {
		now, err := r.findAgentPod(ctx, nodeA)
		if err == nil && now.UID == old.UID {
			err = fmt.Errorf("pod %s is still there", old.Name)
		}
		if err == nil {
			err = r.statusError(ctx, nodeA, `"phase":"applying"`)
		}
		return err
	})
	killed := r.killAgent(t, m, time.Second, 0, time.Second)
	node.Eventually(t, 5*time.Minute, func(ctx context.Context) error {
		return r.statusError(ctx, nodeA, `"phase":"failed"`, "this pod will not retry, to avoid further kubelet restarts: ", "/team/absent:v1")
	})
	pod := must.Get(r.findAgentPod(t.Context(), nodeA))(t)
	if n := pod.Status.ContainerStatuses[0].RestartCount; killed < 2 || int(n) < 2 {
		t.Errorf("the agent was killed %d times, and its container restarted %d times: this shows nothing", killed, n)
	}
	if n := kubeletStarts(t, m) - restarts; n != 2 {
		t.Errorf("the kubelet was started %d times, want 2", n)
	}
	if now := readActiveConfig(t, m); now != currents {
		t.Errorf("the node has:\n%s\nand had:\n%s", now, currents)
	}
}

// kubeletStarts returns how often a machine's kubelet was started.
func kubeletStarts(t *testing.T, m *node.Machine) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(m.Run(t, "sh", "-c", "journalctl --output=cat --unit=kubelet | grep -c '^Started kubelet'")))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// scrapeMetrics returns the agent's /metrics.
func scrapeMetrics(t *testing.T, ip string) string {
	t.Helper()
	resp := must.Get(http.Get("http://" + ip + ":9476/metrics"))(t)
	defer resp.Body.Close()
	data := must.Get(io.ReadAll(resp.Body))(t)
	return string(data)
}
