// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/node"
)

var errPodNotFound = errors.New("it has no pod of the agent")

// kubeletProcesses returns each kubelet's PID and start time, by node.
func (f *clusterFleet) kubeletProcesses(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, m := range f.Nodes {
		all[m.Name()] = m.Run(t, "systemctl", "show", "--property=MainPID,ExecMainStartTimestampMonotonic", "kubelet")
	}
	return all
}

// checkUnchanged checks that before and after, which have a text per node, are equal.
func (f *clusterFleet) checkUnchanged(t *testing.T, before, after map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("not the same (-before +after):\n%s", diff)
	}
}

// describeAllNodeFiles returns the files by node and path, except files that change with pods and images.
func (f *clusterFleet) describeAllNodeFiles(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for _, m := range f.Nodes {
		all[m.Name()] = describeNodeFiles(t, m)
	}
	return all
}

// checkNodeFiles checks that the nodes' files have not changed.
func (f *clusterFleet) checkNodeFiles(t *testing.T, before map[string]map[string]string) {
	t.Helper()
	for name, tree := range f.describeAllNodeFiles(t) {
		if diff := cmp.Diff(before[name], tree); diff != "" {
			t.Errorf("node %s is not as it was (-before +after):\n%s", name, diff)
		}
	}
}

func describeNodeFiles(t *testing.T, m *node.Machine) map[string]string {
	t.Helper()
	list := func(dir string, but ...string) (paths []string) {
		for _, name := range strings.Fields(m.Run(t, "ls", "-A", dir)) {
			paths = append(paths, dir+"/"+name)
		}
		return withoutElements(paths, but)
	}
	dirs := []string{"/etc", "/opt", "/root", "/usr/lib/systemd", "/run/regcred"}
	dirs = append(dirs, list("/usr/local", "/usr/local/go")...) // skip the host's Go installation, which is large
	dirs = append(dirs, list("/var/lib", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/cni")...)
	for _, path := range list("/var/lib/kubelet", "/var/lib/kubelet/pods", "/var/lib/kubelet/image_manager") {
		if !strings.HasSuffix(path, "_state") { // skip the kubelet's state files, which change with pods
			dirs = append(dirs, path)
		}
	}
	tree := m.DescribeFiles(t, dirs...)
	tree["elsewhere"] = strings.Join(list("/run", "/run/cni-pods", "/run/netns"), "\n") + m.Run(t, "systemctl", "list-units", "--all", "--plain", "--no-legend", "regcred*")
	return tree
}

func withoutElements(list, but []string) (rest []string) {
	skip := map[string]bool{}
	for _, b := range but {
		skip[b] = true
	}
	for _, path := range list {
		if !skip[path] {
			rest = append(rest, path)
		}
	}
	return rest
}

// workload is a user's DaemonSet whose image requires a password.
type workload struct {
	*clusterFleet
	name       string
	containers map[string]string // container IDs and restart counts, by node
}

// startWorkload pushes a new image to a host's registry and runs it on each node.
func (f *clusterFleet) startWorkload(t *testing.T, name, host string) workload {
	t.Helper()
	pod := node.NewPod("try", name, f.registry[host].PushApp(t, "team/"+name, "v1"))
	pod.Spec.HostNetwork = false
	labels := map[string]string{"app": name}
	set := must.Get(f.Client.AppsV1().DaemonSets("try").Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{}))(t)
	waitRollout(t, f.Cluster, set)
	w := workload{clusterFleet: f, name: name}
	w.containers = w.currentContainers(t)
	return w
}

func (w workload) currentContainers(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, p := range listPods(t, w.Cluster, "app="+w.name) {
		for _, c := range p.Status.ContainerStatuses {
			all[p.Spec.NodeName] += fmt.Sprintf("pod %s, container %s, %d restarts", p.UID, c.ContainerID, c.RestartCount)
		}
	}
	return all
}

// checkUndisturbed checks that the workload still has the same pods and that its containers did not
// restart.
func (w workload) checkUndisturbed(t *testing.T) {
	t.Helper()
	w.checkUnchanged(t, w.containers, w.currentContainers(t))
}

// providerForHost returns the name of the provider for a host.
func providerForHost(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name + "-credential-provider"
}
