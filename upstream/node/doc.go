// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package node runs the components of a Kubernetes node on this machine: registries,
// containerd, etcd, kube-apiserver and kubelet, all of them real. It is for the tests of
// package cluster.
//
// [Main] runs a package's tests in separate namespaces: a network with only a loopback
// interface, private mounts, and processes that are killed when the tests end. Processes
// in there cannot reach the outside and leave nothing behind, so tests need no cleanup.
//
//	func TestMain(m *testing.M) { node.Main(m) }
//
//	func TestPull(t *testing.T) {
//		node.SkipUnlessSupported(t)
//		net := node.NewFakeNetwork(t)
//		registry := node.StartRegistry(t, net, "registry.example", testregistry.Options{
//			Auth: testregistry.AuthBearer, Users: map[string]string{"ci": canary.PasswordSecret},
//		})
//		kubelet := node.StartKubelet(t, node.KubeletOptions{
//			Runtime: node.StartContainerd(t, net), ControlPlane: node.StartControlPlane(t),
//			ProviderConfig: config, BinDir: node.BinDir(),
//		})
//		pod := node.NewPod("default", "app", registry.PushApp(t, "team/app", "v1"))
//		kubelet.AddStaticPod(t, pod)
//		kubelet.WaitStaticPodRunning(t, pod)
//		t.Log(registry.ManifestRequests("team/app"), kubelet.PluginCounts(t))
//	}
//
// [StartMachine] boots a full system instead: systemd runs as process 1 in its own root
// filesystem and starts containerd and the kubelet, with kubeadm's file layout. Use it to
// test changes to a node and kubelet restarts:
//
//	m := node.StartMachine(t, node.MachineOptions{
//		Net: net, Programs: map[string]string{"/usr/local/bin/regcred": node.RegcredPath()},
//	})
//	before := m.DescribeFiles(t, "/etc", "/usr/local")
//	t.Log(m.Run(t, "regcred", "status"))
//	m.Restart(t, "kubelet")
//
// [StartCluster] starts a full control plane and several machines as its nodes.
//
// Tests can inspect the registry's access log, the kubelet's log and metrics, a pod's
// events, and the API server's audit log.
//
// Functions that take a [testing.TB] fail the test on error, and stop what they started
// when the test ends.
package node
