// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testenv"
)

// ClusterOptions are what a cluster is made of. Net is required.
type ClusterOptions struct {
	Net *testcloud.Net // what the nodes' containerds reach

	// Nodes are its machines, by name and in this order. Those without a Net have the
	// cluster's.
	Nodes []MachineOptions
}

// Cluster is a control plane with all its parts, and machines that are its nodes,
// each in a network of its own: service accounts and the pods of DaemonSets and Jobs
// come and go by themselves. Pods have addresses of their own, but there are no
// services besides "kubernetes", for which the API server listens itself. There can be
// one at a time, in a package whose TestMain calls [MainCluster].
type Cluster struct {
	*ControlPlane
	Nodes []*Machine
}

// NodeGrace is how long a node may be silent until it is not ready.
const NodeGrace = 8 * time.Second

// StartCluster starts a cluster, and waits until its nodes are ready.
func StartCluster(t testing.TB, o ClusterOptions) *Cluster {
	t.Helper()
	c := &Cluster{ControlPlane: startControlPlane(t, serviceAddresses), Nodes: make([]*Machine, len(o.Nodes))}
	c.startControllers(t)
	for i, m := range o.Nodes {
		if m.Net == nil {
			m.Net = o.Net
		}
		m.link, m.control = newLink(t, i), c.ControlPlane
		c.Nodes[i] = newMachine(t, m)
	}
	var wg sync.WaitGroup
	for _, m := range c.Nodes {
		wg.Go(func() { m.Boot(t) })
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, m := range c.Nodes {
		c.WaitNode(t, m.Name(), corev1.ConditionTrue)
	}
	return c
}

// startControllers starts what makes the API server's objects happen.
func (c *Cluster) startControllers(t testing.TB) {
	t.Helper()
	c.startController(t, "kube-controller-manager", "--use-service-account-credentials", "--controllers=*",
		"--service-account-private-key-file="+c.file("sa.key"), "--root-ca-file="+c.file("ca.crt"),
		"--node-monitor-period=1s", "--node-monitor-grace-period="+NodeGrace.String())
	c.startController(t, "kube-scheduler")
}

// startController starts one of them, as the user who bears its name.
func (c *Cluster) startController(t testing.TB, name string, args ...string) {
	t.Helper()
	address := testenv.FreeAddr(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := c.Kubeconfig(t, "system:"+name)
	p := newProcess(t, c.dir, nil, program(name))
	p.start(t, append(args, "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port="+port)...)
	p.waitReady(t, func(ctx context.Context) error {
		_, err := fetch(ctx, anyServer(), "https://"+address+"/healthz")
		return err
	})
}

// Node is the machine with a name.
func (c *Cluster) Node(t testing.TB, name string) *Machine {
	t.Helper()
	for _, m := range c.Nodes {
		if m.Name() == name {
			return m
		}
	}
	t.Fatalf("there is no node %s", name)
	return nil
}

// WaitNode waits until the API server says of a node that it is ready, or is not,
// or that nobody knows.
func (c *Cluster) WaitNode(t testing.TB, name string, ready corev1.ConditionStatus) {
	t.Helper()
	Eventually(t, readyTimeout, func(ctx context.Context) error {
		n, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				if condition.Status == ready {
					return nil
				}
				return fmt.Errorf("node %s is ready: %s, want %s: %s", name, condition.Status, ready, condition.Message)
			}
		}
		return fmt.Errorf("node %s does not say whether it is ready", name)
	})
}

// joinFiles are what makes a machine the node of a control plane.
func (m *Machine) joinFiles(t testing.TB) map[string]string {
	t.Helper()
	data, err := clientcmd.Write(m.options.control.kubeconfig(t, "system:node:"+m.Name(), "system:nodes"))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"/etc/kubernetes/kubelet.conf":   string(data),
		"/etc/cni/net.d/10-ptp.conflist": fmt.Sprintf(podConfig, m.options.link.pods),
	}
}

// podConfig gives each pod an address and a pair of interfaces, by the plugins of
// Debian's containernetworking-plugins.
const podConfig = `{
  "cniVersion": "0.4.0", "name": "pods",
  "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "subnet": "%s", "dataDir": "/run/cni-pods", "routes": [{"dst": "0.0.0.0/0"}]}}]
}
`

// joinConfig is what the KubeletConfiguration of a cluster's node has besides.
func (m *Machine) joinConfig(config map[string]any) {
	maps.Copy(config, map[string]any{
		"address": "0.0.0.0", "healthzBindAddress": "127.0.0.1",
		"nodeStatusUpdateFrequency": "2s", "nodeLeaseDurationSeconds": int(NodeGrace.Seconds()),
		"syncFrequency": "2s",
	})
	m.Kubelet.readOnly = fmt.Sprintf("http://%s:%d", m.options.link.address, config["readOnlyPort"])
}

// Reach makes what listens at an address of the run's loopback interface, such as a
// registry without a name, answer there in the machine, too, until the test ends.
func (m *Machine) Reach(t testing.TB, address string) {
	t.Helper()
	if m.options.link != nil {
		m.options.link.reach(t, address)
	}
}

// Address is that of the machine.
func (m *Machine) Address() string {
	if m.options.link != nil {
		return m.options.link.address
	}
	return Address
}

// client asks what listens in the machine.
func (m *Machine) client() *http.Client {
	if m.options.link != nil {
		return m.options.link.client()
	}
	return http.DefaultClient
}
