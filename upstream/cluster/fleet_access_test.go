// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
)

var agentLabels = map[string]string{
	"app.kubernetes.io/name": "regcred", "app.kubernetes.io/instance": "regcred", "app.kubernetes.io/component": "agent",
}

// fleetTest is an API server with the chart's namespace and state ConfigMap.
type fleetTest struct {
	control *node.ControlPlane
	admin   string // path of the administrator's kubeconfig
}

func newFleetTest(t *testing.T) *fleetTest {
	t.Helper()
	s := &fleetTest{control: node.StartControlPlane(t)}
	s.admin = s.control.WriteKubeconfig(t, "admin", "system:masters")
	s.control.AddNamespace(t, "fleet")
	state := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "regcred-state"}, Data: map[string]string{"state": "present"}}
	must.Get(s.control.Client.CoreV1().ConfigMaps("fleet").Create(t.Context(), state, metav1.CreateOptions{}))(t)
	return s
}

// runRegcred runs regcred through a symlink called name.
func (s *fleetTest) runRegcred(t *testing.T, name string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.Symlink(node.RegcredPath(), path))
	var out, talk bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &talk, []string{"HOME=" + t.TempDir(), "PATH=" + filepath.Dir(path) + ":" + os.Getenv("PATH")}
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return out.String(), talk.String(), cmd.ProcessState.ExitCode()
}

// agentPod returns a node's pod as the chart's DaemonSet would create it.
func agentPod(name, on, image string) *corev1.Pod {
	pod := node.NewPod("fleet", name, image)
	pod.Labels = agentLabels
	pod.Spec.NodeName = on
	pod.Spec.Containers[0].Name = "agent"
	return pod
}

func (s *fleetTest) createPod(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	pod = must.Get(s.control.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	return pod
}

// uninstallHookRules lists exactly the permissions of the chart's hook.
func uninstallHookRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{Verbs: []string{"patch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"regcred-state"}},
		{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods/log"}},
	}
}

// grantRole grants a user a Role with these rules.
func (s *fleetTest) grantRole(t *testing.T, user string, rules []rbacv1.PolicyRule) {
	t.Helper()
	api := s.control.Client.RbacV1()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	must.Get(api.Roles("fleet").Create(t.Context(), role, metav1.CreateOptions{}))(t)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}
	must.Get(api.RoleBindings("fleet").Create(t.Context(), binding, metav1.CreateOptions{}))(t)
}

func (s *fleetTest) runRemove(t *testing.T, kubeconfig, timeout string) (stdout, stderr string, code int) {
	t.Helper()
	return s.runRegcred(t, "regcred", "agent", "remove", "--kubeconfig", kubeconfig, "--namespace", "fleet", "--state-configmap", "regcred-state", "--timeout", timeout)
}

// TestFleetAccess verifies the hook's permissions and the paging of pod lists, with a real API
// server.
func TestFleetAccess(t *testing.T) {
	node.SkipUnlessSupported(t)
	s := newFleetTest(t)
	t.Run("role", s.testMinimalRole)
	t.Run("pages", s.testListPages)
}

// testMinimalRole verifies that the hook's Role is sufficient, and what the hook reports if one of its
// rules is missing.
func (s *fleetTest) testMinimalRole(t *testing.T) {
	status := s.createPod(t, agentPod("on-a", "a", "registry.example/regcred:1"))
	status.Status = corev1.PodStatus{
		Phase:             corev1.PodRunning,
		ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}},
	}
	must.Get(s.control.Client.CoreV1().Pods("fleet").UpdateStatus(t.Context(), status, metav1.UpdateOptions{}))(t)
	defer s.control.Client.CoreV1().Pods("fleet").Delete(context.Background(), "on-a", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	// There is no kubelet, so the pod's log cannot be read, and its node does not exist.
	for i, missing := range []string{"", "patch configmaps", "list pods", "get pods/log"} {
		user := fmt.Sprint("hook-", i)
		rules := uninstallHookRules()
		if i > 0 {
			rules = append(rules[:i-1:i-1], rules[i:]...)
		}
		s.grantRole(t, user, rules)
		stdout, stderr, code := s.runRemove(t, s.control.WriteKubeconfig(t, user), "8s")
		t.Logf("without %q:\n%s%s", missing, stdout, stderr)
		verb, resource, _ := strings.Cut(missing, " ")
		refusal := fmt.Sprintf("cannot %s resource %q in API group \"\" in the namespace \"fleet\"", verb, resource)
		hint := fmt.Sprintf("hint: allow this service account to %s %s", verb, resource)
		switch {
		case code != 1:
			t.Errorf("without %q: exit code %d", missing, code)
		case missing == "" && (strings.Contains(stderr, "403 Forbidden") || !strings.Contains(stderr, "error: a: ")):
			t.Errorf("with all rules:\n%s", stderr)
		case missing != "" && !containsAll(stderr, "error: "+missing, refusal, hint):
			t.Errorf("without %q:\n%s", missing, stderr)
		}
	}
	// The hook cannot change another ConfigMap.
	_, stderr, code := s.runRegcred(t, "regcred", "agent", "remove", "--kubeconfig", s.control.WriteKubeconfig(t, "hook-0"),
		"--namespace", "fleet", "--state-configmap", "other", "--timeout", "8s")
	if code != 1 || !strings.Contains(stderr, `configmaps "other" is forbidden`) {
		t.Errorf("exit code %d:\n%s", code, stderr)
	}
	state, err := s.control.Client.CoreV1().ConfigMaps("fleet").Get(t.Context(), "regcred-state", metav1.GetOptions{})
	if err != nil || state.Data["state"] != "absent" {
		t.Errorf("the state is %v, error %v", state.Data, err)
	}
}

// testListPages verifies that 600 pods are listed in three pages, also if regcred runs as a kubectl
// plugin. Selected nodes without a pod must be listed too.
func (s *fleetTest) testListPages(t *testing.T) {
	for i := range 600 {
		pod := agentPod(fmt.Sprintf("pod-%03d", i), fmt.Sprintf("node-%03d", i), "registry.example/regcred:1")
		s.createPod(t, pod)
	}
	machine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "without", Labels: map[string]string{"pool": "a"}}}
	must.Get(s.control.Client.CoreV1().Nodes().Create(t.Context(), machine, metav1.CreateOptions{}))(t)
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "regcred", Labels: agentLabels},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: agentLabels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: agentLabels}, Spec: agentPod("x", "", "registry.example/regcred:1").Spec},
		},
	}
	ds.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "a"}
	must.Get(s.control.Client.AppsV1().DaemonSets("fleet").Create(t.Context(), ds, metav1.CreateOptions{}))(t)
	before := s.countListCalls(t)
	stdout, stderr, code := s.runRegcred(t, "kubectl-regcred", "nodes", "--kubeconfig", s.admin, "-o", "json")
	var got struct {
		SchemaVersion int
		Nodes         []struct{ Name, State, Reason string }
		Counts        map[string]int
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 1 || got.SchemaVersion != 1 {
		t.Fatalf("exit code %d, error %v:\n%s", code, err, stderr)
	}
	if got.Counts["deleted"] != 600 || len(got.Nodes) != 601 || got.Nodes[600].Name != "without" {
		t.Errorf("%d nodes, counts %v", len(got.Nodes), got.Counts)
	}
	lists := s.countListCalls(t) - before
	if lists != 3 {
		t.Errorf("pods were listed by %d calls", lists)
	}
}

// countListCalls returns how often all pods were listed, according to the API server's metrics.
func (s *fleetTest) countListCalls(t *testing.T) (n int) {
	t.Helper()
	metrics := must.Get(s.control.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context()))(t)
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, "apiserver_request_total{") && containsAll(line, `code="200"`, `resource="pods"`, `verb="LIST"`, `scope="cluster"`) {
			var some int
			must.Get(fmt.Sscan(line[strings.LastIndex(line, " "):], &some))(t)
			n += some
		}
	}
	return n
}

// TestFleetLogs runs pods in a real kubelet. They print their status among other output. It
// verifies that regcred finds the status, also after the kubelet has rotated the log.
func TestFleetLogs(t *testing.T) {
	node.SkipUnlessSupported(t)
	s := newFleetTest(t)
	net := node.NewFakeNetwork(t)
	registry := node.StartRegistry(t, net, "registry.example", testregistry.Options{})
	// The node's name is its address, because the API server resolves the name to reach the
	// kubelet.
	kubelet := node.StartKubelet(t, node.KubeletOptions{
		Runtime: node.StartContainerd(t, net), ControlPlane: s.control, Name: node.NodeAddress,
		Config: map[string]any{
			"address": "0.0.0.0", "containerLogMaxSize": "100Ki", "containerLogMaxFiles": 2, "containerLogMonitorInterval": "3s",
		},
	})
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	pod := agentPod("agent", node.NodeAddress, registry.PushApp(t, "regcred", "v1"))
	pod.Spec.Containers[0].Args = []string{"from", pipe}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "dir", MountPath: dir}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "dir", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}}
	pod = s.control.RunPod(t, kubelet, pod)
	s.control.WaitRunning(t, pod)
	to := must.Get(os.OpenFile(pipe, os.O_RDWR, 0))(t)
	defer to.Close()
	say := func(stream, text string) {
		must.Get(fmt.Fprintf(to, "%s %s\n", stream, text))(t)
	}
	phase := func(p agent.Phase, drift string) {
		text, err := json.Marshal(agent.Status{SchemaVersion: 1, Time: time.Now(), Node: node.NodeAddress, Phase: p, Generation: 1, Drift: []string{drift}})
		if err != nil {
			t.Fatal(err)
		}
		say("1", string(text))
	}
	nodes := func(want ...string) string {
		t.Helper()
		var stdout string
		node.Eventually(t, 30*time.Second, func(context.Context) error {
			var stderr string
			var code int
			stdout, stderr, code = s.runRegcred(t, "regcred", "nodes", "--kubeconfig", s.admin)
			if !containsAll(stdout, want...) {
				return fmt.Errorf("exit code %d, want %q:\n%s%s", code, want, stdout, stderr)
			}
			return nil
		})
		return stdout
	}
	phase(agent.PhaseApplying, "")
	t.Log(nodes("1 applying"))
	phase(agent.PhaseInstalled, "")
	for range 30 { // more lines than the first read of the log returns
		say("2", "warning: something else")
	}
	t.Log(nodes("1 installed"))
	phase(agent.PhaseDrifted, strings.Repeat("x", 40<<10)) // a runtime splits such a line into three
	nodes("1 drifted", "xxxxxxxx")
	// The kubelet rotates the log. Earlier output is lost.
	for range 4000 {
		say("2", "warning: "+strings.Repeat("much to say ", 10))
	}
	node.Eventually(t, time.Minute, func(ctx context.Context) error {
		log, err := s.control.Client.CoreV1().Pods("fleet").GetLogs("agent", &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil || strings.Contains(string(log), "drifted") {
			return fmt.Errorf("the log has not been turned over: %d bytes, error %v", len(log), err)
		}
		return nil
	})
	t.Log(nodes("1 silent"))
	phase(agent.PhaseInstalled, "")
	nodes("1 installed")

	// The hook waits until the agent reports that regcred is removed.
	go func() {
		time.Sleep(time.Second)
		phase(agent.PhaseRemoved, "")
		say("2", "note: that was all")
	}()
	s.grantRole(t, "hook", uninstallHookRules())
	stdout, stderr, code := s.runRemove(t, s.control.WriteKubeconfig(t, "hook"), "60s")
	if code != 0 || stdout != "regcred is removed from 1 node\n" || !strings.Contains(stderr, "192.0.2.1: removed (1 of 1 node removed)") {
		t.Errorf("exit code %d:\n%s%s", code, stdout, stderr)
	}
	// A pod whose image does not exist.
	waits := agentPod("waits", node.NodeAddress, registry.Host+"/none:v1")
	waits.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
	s.createPod(t, waits)
	t.Log(nodes("not-running", "ErrImageNeverPull: "))
}
