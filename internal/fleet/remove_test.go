// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/testkube"
)

// uninstallTest is a cluster from which regcred is uninstalled. It records the messages in
// told.
type uninstallTest struct {
	*testCluster
	mu       sync.Mutex
	messages []string
}

// newUninstallTest returns a cluster in which the pod of each node reports "installed".
func newUninstallTest(t *testing.T, nodes ...string) *uninstallTest {
	c := newTestCluster(t)
	c.Put("configmaps", &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "regcred-state"}, Data: map[string]string{"state": "present", "other": "stays"},
	})
	for _, n := range nodes {
		c.addNode(n)
		c.addAgentPod(n)
		c.setStatus(n, agent.PhaseInstalled)
	}
	return &uninstallTest{testCluster: c}
}

func (r *uninstallTest) recordChange(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, text)
}

// newHookClient returns a client with the permissions of the chart's Role.
func (r *uninstallTest) newHookClient() *Client {
	r.Grant("hook", "patch", "configmaps")
	r.Grant("hook", "list", "pods")
	r.Grant("hook", "get", "pods/log")
	return r.newClient("hook")
}

func (r *uninstallTest) removeOptions() RemoveOptions {
	return RemoveOptions{
		Namespace: "kube-system", ConfigMap: "regcred-state", Selector: DefaultSelector, Timeout: 4 * time.Minute,
		OnChange:  func(n Node, removed, all int) { r.recordChange(fmt.Sprintf("%s %s %d/%d", n.Name, n.State, removed, all)) },
		OnMessage: r.recordChange,
	}
}

// afterPatch waits until the desired state is absent, then waits for a delay, and calls f.
func (r *uninstallTest) afterPatch(d time.Duration, f func()) {
	go func() {
		for r.ConfigMap("kube-system", "regcred-state")["state"] != "absent" {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-r.t.Context().Done():
				return
			}
		}
		select {
		case <-time.After(d):
			f()
		case <-r.t.Context().Done(): // the test has ended
		}
	}()
}

// formatRemoval returns a Removal as text.
func formatRemoval(res *Removal, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "removed %v gone %v\n", res.Removed, res.Deleted)
	for _, n := range res.NotRemoved {
		fmt.Fprintf(&b, "%s %s: %s\n", n.Name, n.State, n.NotRemovedReason())
	}
	return b.String()
}

func (r *uninstallTest) checkUninstall(t *testing.T, c *Client, want string) {
	t.Helper()
	if diff := cmp.Diff(want, formatRemoval(c.Remove(t.Context(), r.removeOptions()))); diff != "" {
		t.Errorf("(-want +got)\n%s\ntold:\n%s", diff, strings.Join(r.messages, "\n"))
	}
}

func (r *uninstallTest) checkNotified(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.messages); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestRemove verifies that Remove sets the state to absent and waits for all nodes. Each
// change is reported once.
func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newUninstallTest(t, "a", "b")
		r.afterPatch(40*time.Second, func() { r.setStatus("a", agent.PhaseApplying) })
		r.afterPatch(50*time.Second, func() { r.setStatus("a", agent.PhaseRemoved) })
		r.afterPatch(70*time.Second, func() { r.setStatus("b", agent.PhaseRemoved) })
		begun := time.Now()
		client := r.newHookClient()
		r.checkUninstall(t, client, "removed [a b] gone []\n")
		if took := time.Since(begun); took < 70*time.Second || took > 75*time.Second {
			t.Errorf("it took %v", took)
		}
		got := r.ConfigMap("kube-system", "regcred-state")
		if diff := cmp.Diff(map[string]string{"state": "absent", "other": "stays"}, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		slices.Sort(r.messages[:2])
		r.checkNotified(t, "a installed 0/2", "b installed 0/2", "a applying 0/2", "a removed 1/2", "b removed 2/2")
		logs := r.CountRequests("get", "pods/log")
		r.checkUninstall(t, client, "removed [a b] gone []\n") // the second call returns immediately
		if n := r.CountRequests("get", "pods/log") - logs; n != 2 {
			t.Errorf("%d logs were read the second time", n)
		}
	})
}

// TestMissing verifies that Remove returns a reason and a fix for each node that has not
// reported "removed" before the timeout.
func TestMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newUninstallTest(t, "away", "busy", "deaf", "failing", "good", "pulling", "unsupported")
		r.addNode("away", makeUnreachable)
		r.addAgentPod("away", makeUnready)
		r.Inject(testkube.Fault{Kind: testkube.FaultServerError, Name: "regcred-away", Message: "no route to host", Times: testkube.Forever})
		r.setStatus("busy", agent.PhaseApplying)
		r.setStatus("failing", agent.PhaseNotRemoved, withReason("the kubelet would not start"))
		r.setStatus("good", agent.PhaseRemoved)
		r.setStatus("unsupported", agent.PhaseRemoved)
		r.addAgentPod("pulling", makeWaiting("ImagePullBackOff", "401"))
		begun := time.Now()
		r.checkUninstall(t, r.newClient(testkube.Admin), `removed [good unsupported] gone []
away away: the node is not ready: NodeStatusUnknown: Kubelet stopped posting node status.; its pod was Running: when the node is back, its pod uninstalls regcred if the DaemonSet still exists; otherwise run sudo regcred uninstall --restart on the node
busy applying: its pod is still applying the change (applying): wait and run this command again, or run sudo regcred uninstall --restart on the node
deaf installed: its pod still reports installed; kubelets propagate the change within about a minute: run this command again, or run sudo regcred uninstall --restart on the node
failing not-removed: the uninstall failed: the kubelet would not start: fix the cause, or run sudo regcred uninstall --restart on the node
pulling not-running: ImagePullBackOff: 401: run sudo regcred uninstall --restart on the node
`)
		if took := time.Since(begun); took < 4*time.Minute-2*time.Second || took > 4*time.Minute {
			t.Errorf("it took %v", took)
		}
		if n := r.CountRequests("get", "pods/log"); n > 5*120+3 {
			t.Errorf("%d logs were read", n)
		}
	})
}

// TestNewPods verifies that Remove also waits for new pods. If a node has already reported
// "removed", it waits only if the new pod reports another state.
func TestNewPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newUninstallTest(t, "a", "b")
		r.setStatus("a", agent.PhaseRemoved)
		r.afterPatch(20*time.Second, func() {
			r.addNode("c")
			r.addAgentPod("c")
			r.setStatus("c", agent.PhaseStarting)
			r.addAgentPod("a", withName("regcred-a2"), makeWaiting("ImagePullBackOff", "401"))
			r.Delete("pods", "kube-system", "regcred-a")
			r.setStatus("b", agent.PhaseRemoved)
		})
		r.afterPatch(60*time.Second, func() { r.setStatus("c", agent.PhaseRemoved) })
		r.checkUninstall(t, r.newHookClient(), "removed [a b c] gone []\n")
	})
	synctest.Test(t, func(t *testing.T) {
		r := newUninstallTest(t, "a", "b")
		r.setStatus("a", agent.PhaseRemoved)
		r.afterPatch(20*time.Second, func() {
			r.addAgentPod("a", withName("regcred-a2"))
			r.SetLog("kube-system", "regcred-a2", statusLine("a", agent.PhaseInstalled))
			r.Delete("pods", "kube-system", "regcred-a")
		})
		r.afterPatch(60*time.Second, func() { r.setStatus("b", agent.PhaseRemoved) })
		got := formatRemoval(r.newHookClient().Remove(t.Context(), r.removeOptions()))
		if !strings.HasPrefix(got, "removed [b] gone []\na installed: ") {
			t.Error(got)
		}
	})
}

// TestDeletedNodes verifies that Remove does not wait for deleted nodes, with or without
// permission to list nodes. It waits for a replaced pod.
func TestDeletedNodes(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newUninstallTest(t, "a", "b", "c")
			if allowed {
				r.Grant("hook", "list", "nodes")
			}
			r.setStatus("a", agent.PhaseRemoved)
			r.afterPatch(20*time.Second, func() { // b is deleted, but its pod remains for a while
				r.Delete("nodes", "", "b")
				r.Delete("pods", "kube-system", "regcred-c")
			})
			r.afterPatch(50*time.Second, func() { r.addAgentPod("c", withName("new")) })
			r.afterPatch(55*time.Second, func() { r.SetLog("kube-system", "new", statusLine("c", agent.PhaseRemoved)) })
			r.afterPatch(65*time.Second, func() { r.Delete("pods", "kube-system", "regcred-b") })
			begun := time.Now()
			r.checkUninstall(t, r.newHookClient(), "removed [a c] gone [b]\n")
			least, most := 55*time.Second, 60*time.Second
			if !allowed {
				least, most = 125*time.Second, 130*time.Second
			}
			if took := time.Since(begun); took < least || took > most {
				t.Errorf("nodes may be listed: %v; it took %v", allowed, took)
			}
			if n := r.CountRequests("list", "nodes"); !allowed && n != 1 {
				t.Errorf("nodes were listed %d times", n)
			}
		})
	}
}

// TestSelectorChanged verifies that a node whose pod was deleted is missing if the node still
// exists and nodes may be listed.
func TestSelectorChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newUninstallTest(t, "a")
		r.afterPatch(5*time.Second, func() { r.Delete("pods", "kube-system", "regcred-a") })
		r.checkUninstall(t, r.newClient(testkube.Admin), "removed [] gone []\na no-pod: its pod was deleted and not replaced: run sudo regcred uninstall --restart on the node\n")
	})
}

// TestNoPods verifies that Remove succeeds if there are no pods, with or without the
// ConfigMap. If there are pods but no ConfigMap, it fails.
func TestNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newUninstallTest(t)
		client := r.newHookClient()
		r.checkUninstall(t, client, "removed [] gone []\n")
		r.Delete("configmaps", "kube-system", "regcred-state")
		r.checkUninstall(t, client, "removed [] gone []\n")
		r.addAgentPod("a")
		r.setStatus("a", agent.PhaseInstalled)
		r.checkUninstall(t, client, "error: ConfigMap kube-system/regcred-state does not exist, but 1 pods read it")
	})
}

// TestRemoveTransient verifies that transient errors are retried and reported once.
func TestRemoveTransient(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(r *uninstallTest)
		told  string
	}{
		{"refused", func(r *uninstallTest) {
			r.Stop()
			go func() { time.Sleep(30 * time.Second); _ = r.Start() }()
		}, "retrying: patch configmaps kube-system/regcred-state: http://testkube: connection refused"},
		{"429", func(r *uninstallTest) { r.Inject(testkube.Fault{Kind: testkube.FaultTooManyRequests, Times: 10}) }, "429"},
		{"500", func(r *uninstallTest) { r.Inject(testkube.Fault{Kind: testkube.FaultServerError, Times: 10}) }, "500"},
		{"401", func(r *uninstallTest) { r.Inject(testkube.Fault{Kind: testkube.FaultUnauthorized, Times: 10}) }, "401"},
		{"409", func(r *uninstallTest) {
			r.Inject(testkube.Fault{Kind: testkube.FaultConflict, Verb: "patch", Times: 2})
		}, "409"},
		{"hangs", func(r *uninstallTest) { r.Inject(testkube.Fault{Kind: testkube.FaultHang, Verb: "patch", Times: 2}) }, "timed out after 10s"},
		{"reset", func(r *uninstallTest) {
			r.Inject(testkube.Fault{Kind: testkube.FaultConnReset, Verb: "patch", Times: 2})
		}, "the connection was closed before the response was complete"},
		{"403 for a moment", func(r *uninstallTest) {
			r.Inject(testkube.Fault{Kind: testkube.FaultForbidden, Verb: "patch", Times: 2})
		}, ""},
		{"pods", func(r *uninstallTest) {
			r.Inject(testkube.Fault{Kind: testkube.FaultServerError, Resource: "pods", Times: 10})
		}, "list pods"},
		{"nodes", func(r *uninstallTest) {
			r.Inject(testkube.Fault{Kind: testkube.FaultUnavailable, Resource: "nodes", Times: 10})
		}, "list nodes"},
		{"logs", func(r *uninstallTest) {
			r.Inject(testkube.Fault{Kind: testkube.FaultConnReset, Resource: "pods/log", Times: 20})
		}, "get pods/log"},
		{"away while waiting", func(r *uninstallTest) {
			r.afterPatch(10*time.Second, func() { r.Stop(); time.Sleep(time.Minute); _ = r.Start() })
		}, "retrying"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newUninstallTest(t, "a")
				client := r.newClient(testkube.Admin)
				r.afterPatch(90*time.Second, func() { r.setStatus("a", agent.PhaseRemoved) })
				tt.spoil(r)
				r.checkUninstall(t, client, "removed [a] gone []\n")
				n := 0
				for _, text := range r.messages {
					if strings.HasPrefix(text, "retrying") {
						n++
						if !strings.Contains(text, tt.told) {
							t.Errorf("told %q, want %q in it", text, tt.told)
						}
					}
				}
				if tt.told != "" && n != 1 || tt.told == "" && n != 0 {
					t.Errorf("told %d times:\n%s", n, strings.Join(r.messages, "\n"))
				}
				if n > 0 && !slices.Contains(r.messages, "the API server responds again") {
					t.Errorf("told\n%s", strings.Join(r.messages, "\n"))
				}
			})
		})
	}
}

// TestRemoveDown verifies that Remove returns the last error after the timeout if the API
// server is unavailable.
func TestRemoveDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newUninstallTest(t, "a")
		client := r.newHookClient()
		r.Inject(testkube.Fault{Kind: testkube.FaultServerError, Resource: "pods", Times: testkube.Forever})
		r.checkUninstall(t, client, "error: the state was set to absent, but after 4m0s it is still unknown which nodes have applied it: list pods in kube-system: http://testkube returned 500 Internal Server Error: Internal error occurred: etcdserver: request timed out")
		r.Stop()
		r.checkUninstall(t, client, "error: could not set the state to absent within 4m0s: patch configmaps kube-system/regcred-state: http://testkube: connection refused")
	})
}

// TestRemoveForbidden verifies that each rule of the hook's Role is needed, and that Remove
// fails soon if one is missing.
func TestRemoveForbidden(t *testing.T) {
	for _, tt := range []struct{ verb, resource, want string }{
		{"patch", "configmaps", `configmaps "regcred-state" is forbidden: User "hook" cannot patch resource "configmaps"`},
		{"list", "pods", `pods is forbidden: User "hook" cannot list resource "pods"`},
		{"get", "pods/log", `pods "regcred-a" is forbidden: User "hook" cannot get resource "pods/log"`},
	} {
		t.Run(tt.resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newUninstallTest(t, "a")
				client := r.newHookClient()
				r.Revoke("hook", tt.verb, tt.resource)
				begun := time.Now()
				_, err := client.Remove(t.Context(), r.removeOptions())
				checkErrorCode(t, err, http.StatusForbidden, tt.want)
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestRemoveOneForbids verifies that a kubelet that refuses to return logs makes only its
// node missing. If other logs can be read, the Role is correct.
func TestRemoveOneForbids(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newUninstallTest(t, "a", "b")
		r.Inject(testkube.Fault{Kind: testkube.FaultForbidden, Resource: "pods/log", Name: "regcred-b", Times: testkube.Forever})
		r.afterPatch(40*time.Second, func() { r.setStatus("a", agent.PhaseRemoved) })
		r.checkUninstall(t, r.newHookClient(), "removed [a] gone []\nb unknown: no permission to read its pod's log: if the state does not change, run sudo regcred uninstall --restart on the node\n")
	})
}

// TestRemoveOthers verifies that Remove ignores pods with the same labels that read another
// ConfigMap, even on the same node.
func TestRemoveOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newUninstallTest(t, "a")
		state := func(configMap string) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "state", VolumeSource: corev1.VolumeSource{
					ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}},
				}}}
			}
		}
		r.addAgentPod("a", state("regcred-state"))
		for _, node := range []string{"a", "c"} {
			r.addAgentPod(node, withName("other-"+node), state("other-state"), func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" })
			r.SetLog("kube-system", "other-"+node, statusLine(node, agent.PhaseInstalled)+"\n")
		}
		r.afterPatch(40*time.Second, func() { r.setStatus("a", agent.PhaseRemoved) })
		r.checkUninstall(t, r.newHookClient(), "removed [a] gone []\n")
		r.checkNotified(t, "a installed 0/1", "a removed 1/1")
	})
}

// TestRemoveInterrupted verifies that Remove returns immediately when its context is
// canceled.
func TestRemoveInterrupted(t *testing.T) {
	for _, fault := range []testkube.Fault{
		{Kind: testkube.FaultHang, Verb: "patch"}, {Kind: testkube.FaultHang, Resource: "pods"}, {Kind: testkube.FaultHang, Resource: "pods/log"}, {Kind: testkube.FaultReplaceText},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newUninstallTest(t, "a")
			r.Inject(fault)
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			go func() { time.Sleep(5 * time.Second); cancel() }()
			_, err := r.newHookClient().Remove(ctx, r.removeOptions())
			if took := time.Since(begun); !errors.Is(err, context.Canceled) || took != 5*time.Second {
				t.Errorf("%+v: after %v: %v", fault, took, err)
			}
		})
	}
}

// TestClocks verifies that a status is accepted even if the node's clock is wrong.
func TestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newUninstallTest(t, "early", "late")
		r.setStatus("early", agent.PhaseRemoved, func(s *agent.Status) { s.Time = time.Now().Add(-24 * time.Hour) })
		r.setStatus("late", agent.PhaseRemoved, func(s *agent.Status) { s.Time = time.Now().Add(24 * time.Hour) })
		r.checkUninstall(t, r.newHookClient(), "removed [early late] gone []\n")
	})
}

// TestRemoveMany verifies that logs are read less often if there are many pods.
func TestRemoveMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newUninstallTest(t)
		for i := range 500 {
			name := fmt.Sprintf("node-%03d", i)
			r.addAgentPod(name)
			r.setStatus(name, agent.PhaseInstalled)
		}
		r.afterPatch(time.Minute, func() {
			for i := range 500 {
				r.setStatus(fmt.Sprintf("node-%03d", i), agent.PhaseRemoved)
			}
		})
		res, err := r.newHookClient().Remove(t.Context(), r.removeOptions())
		if err != nil || len(res.Removed) != 500 {
			t.Fatalf("error %v", err)
		}
		if n := r.CountRequests("get", "pods/log"); n > 500*9 {
			t.Errorf("%d logs were read in a minute", n)
		}
	})
}
