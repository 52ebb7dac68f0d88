// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package compare

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/upstream/node"
)

const registryHost = "registry.example"

// coldResult holds the measurements of the first pods on a node.
type coldResult struct {
	execs           int
	tokens, reads   int           // API server requests
	pulled, running time.Duration // time from the first pod's creation to the last pull, and until all pods run
	cpu             time.Duration // CPU time of the kubelet
	memory, size    int64
}

// TestManyImagesFirstPull starts pods with many images of a registry from which the node has not
// pulled before. The unmodified kubelet runs the plugin for each lookup that starts before the
// first response arrives.
func TestManyImagesFirstPull(t *testing.T) {
	node.SkipUnlessSupported(t)
	const pods = 100
	for _, tt := range []struct {
		delay string
		least int // minimum execs of the unmodified kubelet for a valid comparison
	}{{"0.3", 1}, {"20", pods / 2}} {
		t.Run(tt.delay, func(t *testing.T) {
			p := provider{name: "slow", host: registryHost, script: "sleep " + tt.delay}
			got := compareColdPods(t, p, pods)
			b := newResultTable()
			b.addColdResults(fmt.Sprintf("%d pods, plugin of %s s: ", pods, tt.delay), got)
			b.addSizes("most memory of the kubelet", func(s string) int64 { return got[s].memory })
			b.addSizes("executable", func(s string) int64 { return got[s].size })
			b.logTable(t)
			if got[embeddedKubelet].execs != 1 || got[unmodifiedKubelet].execs < tt.least {
				t.Errorf("execs: %d inside, want 1; %d upstream, want at least %d", got[embeddedKubelet].execs, got[unmodifiedKubelet].execs, tt.least)
			}
		})
	}
}

// TestServiceAccounts starts pods of one service account, each with its own image.
func TestServiceAccounts(t *testing.T) {
	node.SkipUnlessSupported(t)
	const pods = 20
	p := provider{name: "slow", host: registryHost, script: "sleep 0.3", tokenAttributes: map[string]any{
		"serviceAccountTokenAudience": registryHost, "cacheType": "ServiceAccount", "requireServiceAccount": true,
	}}
	got := compareColdPods(t, p, pods)
	b := newResultTable()
	what := fmt.Sprintf("%d pods of one service account: ", pods)
	b.addColdResults(what, got)
	b.addCounts(what+"TokenRequests", func(s string) int { return got[s].tokens })
	b.addCounts(what+"reads of the service account", func(s string) int { return got[s].reads })
	b.logTable(t)
	if got[embeddedKubelet].execs != 1 || got[embeddedKubelet].tokens != 1 {
		t.Errorf("inside: %d execs and %d TokenRequests, want 1 and 1", got[embeddedKubelet].execs, got[embeddedKubelet].tokens)
	}
	if got[unmodifiedKubelet].tokens != pods || got[unmodifiedKubelet].reads < pods {
		t.Errorf("upstream: %d TokenRequests and %d reads, want %d of each", got[unmodifiedKubelet].tokens, got[unmodifiedKubelet].reads, pods)
	}
}

// addColdResults adds the rows that both tests print.
func (b *resultTable) addColdResults(what string, got map[string]coldResult) {
	b.addCounts(what+"execs", func(s string) int { return got[s].execs })
	b.addTimes(what+"first pod to last pull", func(s string) time.Duration { return got[s].pulled })
	b.addTimes(what+"first pod to all running", func(s string) time.Duration { return got[s].running })
	b.addTimes(what+"processor time of the kubelet", func(s string) time.Duration { return got[s].cpu })
}

// compareColdPods runs both kubelets alternately on new nodes. For each it returns the median times, the
// largest number of execs, and the other figures of the last round.
func compareColdPods(t *testing.T, p provider, pods int) map[string]coldResult {
	t.Helper()
	got := map[string]coldResult{}
	for name, all := range alternateKubelets(t, func(t *testing.T, s kubeletVariant) coldResult { return s.runColdPods(t, p, pods) }) {
		c := all[len(all)-1]
		for _, o := range all {
			c.execs = max(c.execs, o.execs)
		}
		t.Logf("%s: %+v", name, all)
		c.pulled = medianDuration(all, func(c coldResult) time.Duration { return c.pulled })
		c.running = medianDuration(all, func(c coldResult) time.Duration { return c.running })
		c.cpu = medianDuration(all, func(c coldResult) time.Duration { return c.cpu })
		got[name] = c
	}
	return got
}

// coldResult runs n pods on a new node and returns the measurements.
func (s kubeletVariant) runColdPods(t *testing.T, p provider, n int) (got coldResult) {
	c := s.startNode(t, []provider{p})
	c.control.AllowAudience(t, p.host)
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = c.newPod(t, p.host, fmt.Sprintf("app-%d", i))
	}
	began := c.runPods(t, pods)
	got.running = c.waitPods(t, n).Sub(began)
	for i := range pods {
		times := c.pullTimes(p.host, fmt.Sprintf("team/app-%d", i))
		if len(times) == 0 {
			t.Fatalf("app-%d runs, but %s served it to no client", i, p.host)
		}
		got.pulled = max(got.pulled, times[len(times)-1].Sub(began))
	}
	got.execs, got.memory, got.size, got.cpu = len(c.pluginRunTimes(t, p.name)), c.residentMemory(t), c.programSize(t), c.cpuTime(t)
	for _, call := range c.control.AuditCalls(t, "system:node:"+s.name) {
		switch {
		case call.Resource == "serviceaccounts/token":
			got.tokens++
		case call.Resource == "serviceaccounts" && call.Verb == "get":
			got.reads++
		}
	}
	return got
}
