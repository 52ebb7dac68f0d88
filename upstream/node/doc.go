// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package node runs what a Kubernetes node consists of on this machine:
// registries, containerd, etcd, kube-apiserver and kubelet, all of them real.
// It is for the tests of package cluster.
//
// [Main] runs a package's tests in namespaces of their own: a network that has
// the loopback interface alone, mounts that nobody else sees, and processes
// that end with the tests, however these end. What is started in there needs
// no care: it cannot reach anything, and leaves nothing behind.
//
//	func TestMain(m *testing.M) { node.Main(m) }
//
//	func TestPull(t *testing.T) {
//		node.Require(t)
//		net := node.NewNet(t)
//		registry := node.StartRegistry(t, net, "registry.example", testregistry.Options{
//			Auth: testregistry.Bearer, Users: map[string]string{"ci": canary.Password},
//		})
//		kubelet := node.StartKubelet(t, node.KubeletOptions{
//			Runtime: node.StartContainerd(t, net), ControlPlane: node.StartControlPlane(t),
//			ProviderConfig: config, BinDir: node.BinDir(),
//		})
//		pod := node.NewPod("default", "app", registry.PushApp(t, "team/app", "v1"))
//		kubelet.AddStatic(t, pod)
//		kubelet.WaitStaticRunning(t, pod)
//		t.Log(registry.Pulls("team/app"), kubelet.PluginCounts(t))
//	}
//
// [StartMachine] boots a whole computer instead: systemd is its first process,
// in a root filesystem of its own, and runs containerd and the kubelet, laid
// out as by kubeadm. It is for what changes a node, and restarts its kubelet:
//
//	m := node.StartMachine(t, node.MachineOptions{
//		Net: net, Programs: map[string]string{"/usr/local/bin/regcred": node.Regcred()},
//	})
//	before := m.Tree(t, "/etc", "/usr/local")
//	t.Log(m.Run(t, "regcred", "status"))
//	m.Restart(t, "kubelet")
//
// [StartCluster] has all of the control plane, and several machines as its nodes.
//
// What happened can be read from the registry's access log, the kubelet's log
// and metrics, a pod's events, and the API server's audit log.
//
// Every function that takes a [testing.TB] ends the test if it cannot do what
// it says, and ends what it started with the test.
package node
