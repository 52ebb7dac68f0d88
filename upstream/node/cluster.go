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

// ClusterOptions configures a cluster. Net is required.
type ClusterOptions struct {
	Net *testcloud.FakeNetwork // network that containerd on the nodes can reach

	// Nodes are the cluster's machines, in the order in which they get addresses. Net
	// defaults to the cluster's.
	Nodes []MachineOptions
}

// Cluster is a full control plane, including controllers and scheduler, and machines as its nodes.
// Each machine has its own network namespace. Pods have their own addresses, but there is only one
// service, "kubernetes". The API server listens on that service's address.
//
// A run can have only one cluster at a time, in a package whose TestMain calls [MainCluster].
type Cluster struct {
	*ControlPlane
	Nodes []*Machine
}

// NodeMonitorGracePeriod is the time without a heartbeat after which a node is marked not ready.
const NodeMonitorGracePeriod = 8 * time.Second

// StartCluster starts a cluster and waits until its nodes are ready.
func StartCluster(t testing.TB, o ClusterOptions) *Cluster {
	t.Helper()
	c := &Cluster{ControlPlane: startControlPlane(t, serviceAddresses), Nodes: make([]*Machine, len(o.Nodes))}
	c.startControllers(t)
	for i, m := range o.Nodes {
		if m.Net == nil {
			m.Net = o.Net
		}
		m.network, m.control = newMachineNetwork(t, i), c.ControlPlane
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
		c.WaitNodeReady(t, m.Name(), corev1.ConditionTrue)
	}
	return c
}

// startControllers starts the controller manager and the scheduler.
func (c *Cluster) startControllers(t testing.TB) {
	t.Helper()
	c.startController(t, "kube-controller-manager", "--use-service-account-credentials", "--controllers=*",
		"--service-account-private-key-file="+c.filePath("sa.key"), "--root-ca-file="+c.filePath("ca.crt"),
		"--node-monitor-period=1s", "--node-monitor-grace-period="+NodeMonitorGracePeriod.String())
	c.startController(t, "kube-scheduler")
}

// startController starts a control plane component as the user system:NAME.
func (c *Cluster) startController(t testing.TB, name string, args ...string) {
	t.Helper()
	address := testenv.FreeAddr(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := c.WriteKubeconfig(t, "system:"+name)
	p := newProcess(t, c.dir, nil, programPath(name))
	p.start(t, append(args, "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port="+port)...)
	p.waitReady(t, func(ctx context.Context) error {
		_, err := httpGet(ctx, insecureClient(), "https://"+address+"/healthz")
		return err
	})
}

// Machine returns the machine with that name.
func (c *Cluster) Machine(t testing.TB, name string) *Machine {
	t.Helper()
	for _, m := range c.Nodes {
		if m.Name() == name {
			return m
		}
	}
	t.Fatalf("there is no node %s", name)
	return nil
}

// WaitNodeReady waits until the node's Ready condition is True, False or Unknown, as given.
func (c *Cluster) WaitNodeReady(t testing.TB, name string, ready corev1.ConditionStatus) {
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

// joinFiles returns the files that join the machine to its control plane.
func (m *Machine) joinFiles(t testing.TB) map[string]string {
	t.Helper()
	data, err := clientcmd.Write(m.options.control.newKubeconfig(t, "system:node:"+m.Name(), "system:nodes"))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"/etc/kubernetes/kubelet.conf":   string(data),
		"/etc/cni/net.d/10-ptp.conflist": fmt.Sprintf(podNetworkConfig, m.options.network.pods),
	}
}

// podNetworkConfig is a CNI configuration that gives each pod an address and a veth pair. It
// uses the plugins in Debian's containernetworking-plugins.
const podNetworkConfig = `{
  "cniVersion": "0.4.0", "name": "pods",
  "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "subnet": "%s", "dataDir": "/run/cni-pods", "routes": [{"dst": "0.0.0.0/0"}]}}]
}
`

// joinConfig adds the KubeletConfiguration fields that only cluster nodes have.
func (m *Machine) joinConfig(config map[string]any) {
	maps.Copy(config, map[string]any{
		"address": "0.0.0.0", "healthzBindAddress": "127.0.0.1",
		"nodeStatusUpdateFrequency": "2s", "nodeLeaseDurationSeconds": int(NodeMonitorGracePeriod.Seconds()),
		"syncFrequency": "2s",
	})
	m.Kubelet.readOnlyURL = fmt.Sprintf("http://%s:%d", m.options.network.address, config["readOnlyPort"])
}

// ForwardAddress forwards an address in the machine to the same address on the run's loopback
// interface, such as a registry without a host name, until the test ends.
func (m *Machine) ForwardAddress(t testing.TB, address string) {
	t.Helper()
	if m.options.network != nil {
		m.options.network.forwardAddress(t, address)
	}
}

// Address returns the machine's IP address.
func (m *Machine) Address() string {
	if m.options.network != nil {
		return m.options.network.address
	}
	return NodeAddress
}

// httpClient returns an HTTP client that connects from inside the machine.
func (m *Machine) httpClient() *http.Client {
	if m.options.network != nil {
		return m.options.network.httpClient()
	}
	return http.DefaultClient
}
