// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testkube"
)

func readFleet(t *testing.T, c *testCluster) *Fleet {
	t.Helper()
	return must.Get(c.newClient(testkube.Admin).Status(t.Context(), Query{}))(t)
}

// TestStates verifies how a node's state is derived from its pod's status, the pod and the
// Node.
func TestStates(t *testing.T) {
	long := "Back-off pulling image \"registry.example/regcred:1\":\nErrImagePull: 401"
	for _, tt := range []struct {
		name string
		with func(c *testCluster)
		want string
	}{
		{"installed", func(c *testCluster) { c.addAgentPod("n"); c.setStatus("n", agent.PhaseInstalled) }, "n installed well\n"},
		{"planned", func(c *testCluster) { c.addAgentPod("n"); c.setStatus("n", agent.PhasePlanned) }, "n planned well\n"},
		{"unsupported", func(c *testCluster) {
			c.addAgentPod("n")
			c.setStatus("n", agent.PhaseUnsupported, withReason("Bottlerocket: set it by apiclient"))
		},
			"n unsupported well: Bottlerocket: set it by apiclient\n"},
		{"failed", func(c *testCluster) {
			c.addAgentPod("n", makeUnready)
			c.setStatus("n", agent.PhaseFailed, withReason("the kubelet did not start"))
		},
			"n failed: the kubelet did not start\n"},
		{"drifted", func(c *testCluster) {
			c.addAgentPod("n", makeUnready)
			c.setStatus("n", agent.PhaseDrifted, func(s *agent.Status) { s.Drift = []string{"file a is gone", "file b differs"} })
		}, "n drifted: file a is gone; file b differs\n"},
		{"last error", func(c *testCluster) {
			c.addAgentPod("n", makeUnready)
			c.setStatus("n", agent.PhaseFailed, func(s *agent.Status) { s.LastError = &agent.Error{Time: time.Now(), Message: "no space"} })
		}, "n failed: no space\n"},
		{"a phase of a newer agent", func(c *testCluster) { c.addAgentPod("n", makeUnready); c.setStatus("n", "asleep", withReason("so it is")) }, "n asleep: so it is\n"},
		{"cannot be pulled", func(c *testCluster) { c.addAgentPod("n", makeWaiting("ImagePullBackOff", long)) },
			"n not-running: ImagePullBackOff: Back-off pulling image \"registry.example/regcred:1\": ErrImagePull: 401\n"},
		{"init container cannot be pulled", func(c *testCluster) { c.addAgentPod("n", makeWaitInInit("ErrImageNeverPull", "it is not there")) },
			"n not-running: container copy: ErrImageNeverPull: it is not there\n"},
		{"crashes", func(c *testCluster) {
			c.addAgentPod("n", makeWaiting("CrashLoopBackOff", "back-off 5m0s"), func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Message: "note: x\nerror: no such flag\n"}
			})
		}, "n not-running: CrashLoopBackOff: back-off 5m0s; exit code 2: error: no such flag\n"},
		{"not scheduled", func(c *testCluster) {
			c.addAgentPod("n", func(p *corev1.Pod) {
				p.Spec.NodeName = ""
				p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
						Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"},
					}}}},
				}}}
				p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available: Insufficient memory",
				}}}
			})
		}, "n not-running: its pod is not scheduled: 0/1 nodes are available: Insufficient memory\n"},
		{"evicted", func(c *testCluster) {
			c.addAgentPod("n", func(p *corev1.Pod) {
				p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}
			})
		}, "n not-running: its pod has failed: Evicted: The node was low on resource: memory.\n"},
		{"no pod", func(c *testCluster) {}, "n no-pod: the DaemonSet has no pod on this node: kubectl describe daemonset -n kube-system regcred says why\n"},
		{"away", func(c *testCluster) {
			c.addNode("n", makeUnreachable)
			c.addAgentPod("n", makeUnready)
			c.Inject(testkube.Fault{Kind: testkube.FaultServerError, Resource: "pods/log", Message: "Get \"https://10.0.0.9:10250\": no route to host"})
		}, "n away: the node is not ready: NodeStatusUnknown: Kubelet stopped posting node status.; its pod was Running\n"},
		{"not ready, but it answers", func(c *testCluster) { c.addNode("n", makeUnreachable); c.addAgentPod("n"); c.setStatus("n", agent.PhaseInstalled) }, "n installed well\n"},
		{"away before its pod ran", func(c *testCluster) { c.addNode("n", makeUnreachable); c.addAgentPod("n", makeWaiting("ContainerCreating", "")) },
			"n away: the node is not ready: NodeStatusUnknown: Kubelet stopped posting node status.\n"},
		{"not ready, and its log is empty", func(c *testCluster) { c.addNode("n", makeNotReady); c.addAgentPod("n") },
			"n silent: its pod is running, but its log shows no state yet; after log rotation, the log can be empty for up to ten minutes\n"},
		{"not ready, and its pod waits", func(c *testCluster) { c.addNode("n", makeNotReady); c.addAgentPod("n", makeWaiting("ErrImagePull", "401")) },
			"n not-running: ErrImagePull: 401\n"},
		{"away without a pod", func(c *testCluster) { c.addNode("n", makeUnreachable) },
			"n away: the node is not ready: NodeStatusUnknown: Kubelet stopped posting node status.; it has no pod\n"},
		{"log of a node that is ready", func(c *testCluster) {
			c.addAgentPod("n")
			c.Inject(testkube.Fault{Kind: testkube.FaultServerError, Resource: "pods/log", Message: "x509: certificate has expired"})
		}, "n unknown: get pods/log kube-system/regcred-n: http://testkube returned 500 Internal Server Error: x509: certificate has expired\n"},
		{"no word", func(c *testCluster) { c.addAgentPod("n"); c.SetLog("kube-system", "regcred-n", "note: hello\n") },
			"n silent: its pod is running, but its log shows no state yet; after log rotation, the log can be empty for up to ten minutes\n"},
		{"just begun", func(c *testCluster) {
			c.addAgentPod("n", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Now() })
		}, "n starting: its pod has just started\n"},
		{"long silent", func(c *testCluster) {
			c.addAgentPod("n")
			c.setStatus("n", agent.PhaseInstalled, func(s *agent.Status) { s.Time = time.Now().Add(-time.Hour) })
		}, "n silent: its pod is running but has not reported anything since phase installed\n"},
		{"deleted", func(c *testCluster) { c.Delete("nodes", "", "n"); c.addAgentPod("n"); c.setStatus("n", agent.PhaseInstalled) },
			"n deleted: the node no longer exists; its pod will be deleted\n"},
		{"not replaced yet", func(c *testCluster) { c.addAgentPod("n", withOldRevision); c.setStatus("n", agent.PhaseInstalled) },
			"n installed behind: its pod has not been replaced yet\n"},
		{"two pods", func(c *testCluster) { // the old pod is terminating
			c.addAgentPod("n", withName("old"), func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) })
			c.addAgentPod("n")
			c.setStatus("n", agent.PhaseApplying)
		}, "n applying\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestCluster(t)
				c.addNode("n")
				tt.with(c)
				if diff := cmp.Diff(tt.want, formatNodes(readFleet(t, c).Nodes)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		})
	}
}

// TestPodsOfOtherNamespaces verifies that a pod in another namespace that imitates an agent's
// pod is listed under its own namespace, and does not replace the agent's pod.
func TestPodsOfOtherNamespaces(t *testing.T) {
	c := newTestCluster(t)
	c.addNode("n")
	c.addAgentPod("n", makeUnready)
	c.setStatus("n", agent.PhaseFailed, withReason("the kubelet did not start"))
	c.addAgentPod("n", func(p *corev1.Pod) {
		p.Namespace, p.CreationTimestamp = "tenant", metav1.NewTime(time.Now().Add(time.Hour))
	})
	c.SetLog("tenant", "regcred-n", statusLine("n", agent.PhaseInstalled)+"\n")
	f := readFleet(t, c)
	if diff := cmp.Diff("n failed: the kubelet did not start\nn installed well\n", formatNodes(f.Nodes)); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	if a, b := f.Nodes[0].Owner, f.Nodes[1].Owner; a != "kube-system/regcred" || b != "tenant/regcred" {
		t.Errorf("they are of %s and %s", a, b)
	}
}

// TestHostileStatus verifies that text from any status is shortened and printed on one line.
func TestHostileStatus(t *testing.T) {
	c := newTestCluster(t)
	for _, n := range []string{"a", "b", "c", "d"} {
		c.addNode(n)
		c.addAgentPod(n, makeUnready)
	}
	long := strings.Repeat("x\n\x1b[2J ", 10_000)
	c.setStatus("a", agent.PhaseFailed, withReason(long))
	c.setStatus("b", agent.PhaseDrifted, func(s *agent.Status) { s.Drift = []string{long} })
	c.setStatus("c", agent.PhaseFailed, func(s *agent.Status) { s.LastError = &agent.Error{Time: time.Now(), Message: long} })
	c.setStatus("d", agent.Phase(long))
	for _, n := range readFleet(t, c).Nodes {
		if len(n.State) > 100 || len(n.Reason) > 2000 || strings.Contains(n.Reason, "\n") {
			t.Errorf("%s: a state of %d bytes, a reason of %d", n.Name, len(n.State), len(n.Reason))
		}
	}
}

// TestSelected verifies on which nodes a DaemonSet should have a pod.
func TestSelected(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
	}
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t)
		ds := c.daemonSet()
		ds.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "a"}
		ds.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
		c.Put("daemonsets", ds)
		in := func(n *corev1.Node) { n.Labels = map[string]string{"pool": "a"} }
		c.addNode("other-pool")
		c.addNode("yes", in)
		c.addNode("control-plane", in, taint("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule))
		c.addNode("cordoned", in, taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule))
		c.addNode("gpu", in, taint("gpu", corev1.TaintEffectNoExecute))
		c.addNode("preferred", in, taint("x", corev1.TaintEffectPreferNoSchedule))
		var got []string
		for _, n := range readFleet(t, c).Nodes {
			got = append(got, n.Name)
		}
		if diff := cmp.Diff([]string{"cordoned", "gpu", "preferred", "yes"}, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestRollout verifies the progress of a rollout and the nodes that block it.
func TestRollout(t *testing.T) {
	for _, tt := range []struct {
		name string
		with func(c *testCluster, ds *appsv1.DaemonSet)
		want Rollout
	}{
		{"done", func(c *testCluster, ds *appsv1.DaemonSet) {}, Rollout{Progress: ProgressDone}},
		{"done, one fails", func(c *testCluster, ds *appsv1.DaemonSet) { c.addAgentPod("a", makeUnready); c.setStatus("a", agent.PhaseFailed) }, Rollout{Progress: ProgressDone}},
		{"under way", func(c *testCluster, ds *appsv1.DaemonSet) {
			c.addAgentPod("a", makeUnready)
			c.setStatus("a", agent.PhaseApplying)
			c.addAgentPod("b", withOldRevision)
		}, Rollout{Progress: ProgressRunning, Outdated: 1}},
		{"not seen yet", func(c *testCluster, ds *appsv1.DaemonSet) { ds.Generation = 7 }, Rollout{Progress: ProgressRunning}},
		{"stopped by a failure", func(c *testCluster, ds *appsv1.DaemonSet) {
			c.addAgentPod("a", makeUnready)
			c.setStatus("a", agent.PhaseFailed)
			c.addAgentPod("b", withOldRevision)
			c.addAgentPod("c", withOldRevision)
		}, Rollout{Progress: ProgressStopped, Outdated: 2, StoppedBy: []string{"a"}}},
		{"stopped by one that is away", func(c *testCluster, ds *appsv1.DaemonSet) {
			c.addNode("a", makeUnreachable)
			c.addAgentPod("a", withOldRevision, makeUnready)
			c.Inject(testkube.Fault{Kind: testkube.FaultServerError, Name: "regcred-a"})
		}, Rollout{Progress: ProgressStopped, Outdated: 1, StoppedBy: []string{"a"}}},
		{"more may fail", func(c *testCluster, ds *appsv1.DaemonSet) {
			ds.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("34%"))} // 2 of 3
			c.addAgentPod("a", makeUnready)
			c.setStatus("a", agent.PhaseFailed)
			c.addAgentPod("b", withOldRevision)
		}, Rollout{Progress: ProgressRunning, Outdated: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestCluster(t)
				for _, n := range []string{"a", "b", "c"} {
					c.addNode(n)
					c.addAgentPod(n)
					c.setStatus(n, agent.PhaseInstalled)
				}
				ds := c.daemonSet()
				ds.Status.DesiredNumberScheduled, ds.Status.NumberReady = 3, 2
				tt.with(c, ds)
				c.Put("daemonsets", ds)
				want := tt.want
				want.Namespace, want.Name, want.Owner, want.Revision = "kube-system", "regcred", "kube-system/regcred", "regcred-2"
				want.Desired, want.Ready = 3, 2
				if diff := cmp.Diff([]Rollout{want}, readFleet(t, c).Rollouts); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		})
	}
}

// TestLogs verifies that the last status line of this node is found among other log lines.
func TestLogs(t *testing.T) {
	good := statusLine("n", agent.PhaseInstalled)
	for _, tt := range []struct {
		name, log string
		want      agent.Phase // "" if there is no phase
		calls     int
	}{
		{"last", statusLine("n", agent.PhaseApplying) + "\n" + good + "\n", agent.PhaseInstalled, 1},
		{"standard error after it", good + "\nwarning: x\n{\"level\":\"info\"}\n", agent.PhaseInstalled, 1},
		{"without its end", good + "\n" + statusLine("n", agent.PhaseFailed)[:60], agent.PhaseInstalled, 1},
		{"another node's", good + "\n" + statusLine("m", agent.PhaseFailed) + "\n", agent.PhaseInstalled, 1},
		{"no version", good + "\n" + `{"node":"n","phase":"failed","time":"2026-01-01T00:00:00Z"}` + "\n", agent.PhaseInstalled, 1},
		{"a number for a phase", good + "\n" + `{"schemaVersion":1,"node":"n","phase":7}` + "\n", agent.PhaseInstalled, 1},
		{"much after it", good + "\n" + strings.Repeat("note: restarting\n", 1000), agent.PhaseInstalled, 2},
		{"long lines after it", good + "\n" + strings.Repeat(strings.Repeat("x", 20<<10)+"\n", 19), agent.PhaseInstalled, 2},
		{"long line", statusLine("n", agent.PhaseDrifted, withReason(strings.Repeat("x", 100<<10))), agent.PhaseDrifted, 1},
		{"the first bytes have an older one", statusLine("n", agent.PhaseApplying) + "\n" + strings.Repeat(strings.Repeat("x", 20<<10)+"\n", 18) + good + "\n", agent.PhaseInstalled, 2},
		{"none", "note: hello\n", "", 1},
		{"none in much", strings.Repeat("note: restarting\n", 3000), "", 2},
		{"empty", "", "", 1},
		{"CRLF", good + "\r\n", agent.PhaseInstalled, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestCluster(t)
				c.addAgentPod("n")
				c.SetLog("kube-system", "regcred-n", tt.log)
				var got agent.Phase
				if n := readFleet(t, c).Nodes[0]; n.Status != nil {
					got = n.Status.Phase
				}
				if calls := c.CountRequests("get", "pods/log"); got != tt.want || calls != tt.calls {
					t.Errorf("got %q by %d calls, want %q by %d", got, calls, tt.want, tt.calls)
				}
			})
		})
	}
}

// FuzzLog verifies that only a valid status of this node is found in a log.
func FuzzLog(f *testing.F) {
	f.Add(statusLine("n", agent.PhaseInstalled)+"\nnote: x\n", "n")
	f.Fuzz(func(t *testing.T, log, node string) {
		if s := lastStatus([]byte(log), node); s != nil && (s.Node != node || s.Phase == "" || s.SchemaVersion < 1) {
			t.Errorf("%q: %+v", log, s)
		}
	})
}

// TestForbidden verifies that missing permissions are reported in a note, and that all other
// data is returned.
func TestForbidden(t *testing.T) {
	for _, tt := range []struct {
		resource string // resource that may not be listed
		want     string
		note     string
	}{
		{"", "a no-pod: the DaemonSet has no pod on this node: kubectl describe daemonset -n kube-system regcred says why\nn installed well\n", ""},
		{"nodes", "n installed well\n", `cannot tell which nodes are ready or which nodes have no pod: list nodes: http://testkube returned 403 Forbidden: nodes is forbidden: User "eve" cannot list resource "nodes" in API group "" at the cluster scope`},
		{"daemonsets", "n installed well\n", `cannot tell how far the rollout has progressed or which nodes have no pod: list daemonsets: http://testkube returned 403 Forbidden: daemonsets is forbidden: User "eve" cannot list resource "daemonsets" in API group "apps" at the cluster scope`},
		{"pods/log", "a no-pod: the DaemonSet has no pod on this node: kubectl describe daemonset -n kube-system regcred says why\nn unknown: no permission to read its pod's log\n", `the nodes' state is unknown: get pods/log kube-system/regcred-n: http://testkube returned 403 Forbidden: pods "regcred-n" is forbidden: User "eve" cannot get resource "pods/log" in API group "" in the namespace "kube-system"`},
	} {
		t.Run(tt.resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestCluster(t)
				c.addNode("a")
				c.addNode("n")
				c.addAgentPod("n")
				c.setStatus("n", agent.PhaseInstalled)
				for _, resource := range []string{"pods", "pods/log", "nodes", "daemonsets"} {
					if resource != tt.resource {
						c.Grant("eve", "*", resource)
					}
				}
				f := must.Get(c.newClient("eve").Status(t.Context(), Query{}))(t)
				if diff := cmp.Diff(tt.want, formatNodes(f.Nodes)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				if diff := cmp.Diff(tt.note, strings.Join(f.Notes, "\n")); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		})
	}
}

// TestFallback verifies that only one namespace is listed if the user may not list all
// namespaces. Missing permissions are reported if that fails, too.
func TestFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t)
		c.addAgentPod("n")
		client := c.newClient("eve")
		_, err := client.Status(t.Context(), Query{Fallback: "kube-system"})
		checkErrorCode(t, err, http.StatusForbidden, "list pods in kube-system")
		_, err = client.Status(t.Context(), Query{})
		checkErrorCode(t, err, http.StatusForbidden, "list pods: ")
		c.Inject(testkube.Fault{Kind: testkube.FaultForbidden, Verb: "list", Resource: "pods"})
		f, err := c.newClient(testkube.Admin).Status(t.Context(), Query{Fallback: "kube-system"})
		if err != nil || f.Namespace != "kube-system" || len(f.Nodes) != 1 || len(f.Notes) != 1 {
			t.Errorf("%+v, error %v", f, err)
		}
	})
}

// TestManyNodes verifies the number of calls for 500 nodes, and that 16 logs are read
// concurrently.
func TestManyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t)
		for i := range 500 {
			name := fmt.Sprintf("node-%03d", i)
			c.addNode(name)
			c.addAgentPod(name)
			c.setStatus(name, agent.PhaseInstalled)
		}
		client := c.newClient(testkube.Admin)
		c.Inject(testkube.Fault{Kind: testkube.FaultHang, Resource: "pods/log", Times: maxConcurrentLogs})
		go func() {
			synctest.Wait()
			if n := c.CountRequests("get", "pods/log"); n != 16 {
				t.Errorf("%d logs are read at a time", n)
			}
			c.ReleaseHanging()
		}()
		var mu sync.Mutex
		most := 0
		f, err := client.Status(t.Context(), Query{Progress: func(done, total int) {
			mu.Lock()
			defer mu.Unlock()
			if most = max(most, done); total != 500 {
				t.Errorf("%d of %d", done, total)
			}
		}})
		if err != nil || len(f.Nodes) != 500 || f.Nodes[499].Name != "node-499" || !f.Nodes[499].Done || most != 500 {
			t.Fatalf("%d nodes, progress %d, error %v", len(f.Nodes), most, err)
		}
		for call, want := range map[string]int{"pods": 2, "nodes": 2, "daemonsets": 1, "pods/log": 500, "": 505} {
			if got := c.CountRequests("", call); got != want {
				t.Errorf("%q: %d calls, want %d", call, got, want)
			}
		}
	})
}

// TestExpired verifies that list starts again once if the API server's snapshot expires.
func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t)
		for i := range 300 {
			c.addNode(fmt.Sprint("node-", i))
			c.addAgentPod(fmt.Sprint("node-", i))
		}
		for _, resource := range []string{"pods", "nodes"} {
			c.Inject(testkube.Fault{Kind: testkube.FaultGone, Verb: "list", Resource: resource, After: 1})
		}
		if f := readFleet(t, c); len(f.Nodes) != 300 || len(f.Notes) != 0 {
			t.Errorf("%d nodes, notes %q", len(f.Nodes), f.Notes)
		}
		c.Inject(testkube.Fault{Kind: testkube.FaultGone, Verb: "list", Resource: "pods", After: 1})
		c.Inject(testkube.Fault{Kind: testkube.FaultGone, Verb: "list", Resource: "pods", After: 1})
		_, err := c.newClient(testkube.Admin).Status(t.Context(), Query{})
		checkErrorCode(t, err, http.StatusGone)
	})
}

// TestSlowNode verifies that a node that does not respond takes ten seconds, and does not
// delay other nodes.
func TestSlowNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t)
		for _, n := range []string{"a", "b"} {
			c.addNode(n)
			c.addAgentPod(n)
			c.setStatus(n, agent.PhaseInstalled)
		}
		c.Inject(testkube.Fault{Kind: testkube.FaultHang, Name: "regcred-a"})
		begun := time.Now()
		f := readFleet(t, c)
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
		want := "a unknown: get pods/log kube-system/regcred-a: http://testkube: timed out after 10s: context deadline exceeded\nb installed well\n"
		if diff := cmp.Diff(want, formatNodes(f.Nodes)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestRetried verifies that requests are retried after a Retry-After and after a lost
// connection.
func TestRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t)
		c.addNode("n")
		c.addAgentPod("n")
		c.setStatus("n", agent.PhaseInstalled)
		c.Inject(testkube.Fault{Kind: testkube.FaultTooManyRequests, RetryAfter: time.Second, Resource: "pods/log", Times: 3})
		c.Inject(testkube.Fault{Kind: testkube.FaultConnReset, Resource: "pods"})
		c.Inject(testkube.Fault{Kind: testkube.FaultTruncate, Resource: "nodes"})
		if diff := cmp.Diff("n installed well\n", formatNodes(readFleet(t, c).Nodes)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestInterrupted verifies that Status returns the error of the canceled context.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, resource := range []string{"pods", "daemonsets", "nodes", "pods/log"} {
			c := newTestCluster(t)
			c.addAgentPod("n")
			c.Inject(testkube.Fault{Kind: testkube.FaultHang, Resource: resource})
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel) // when all goroutines wait for the hanging request
			if _, err := c.newClient(testkube.Admin).Status(ctx, Query{}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", resource, err)
			}
		}
	})
}

// TestGarbage verifies that the error for an invalid response does not quote the response.
func TestGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, kind := range []testkube.FaultKind{testkube.FaultHTMLBody, testkube.FaultBadObject} {
			c := newTestCluster(t)
			c.Inject(testkube.Fault{Kind: kind, Resource: "pods"})
			_, err := c.newClient(testkube.Admin).Status(t.Context(), Query{})
			if err == nil || !strings.Contains(err.Error(), "the response is not a PodList") || strings.Contains(err.Error(), "open-sesame") {
				t.Error(err)
			}
		}
	})
}
