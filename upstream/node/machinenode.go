// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred/internal/testregistry"
)

// machineRuntimeSocket is the path of containerd's socket in the machine.
const machineRuntimeSocket = "/run/containerd/containerd.sock"

// machineContainerdConfig is a template of containerd's configuration. Its only parameter is the
// sandbox image.
const machineContainerdConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "%s"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
`

// The kubelet's unit and drop-in, as in the Kubernetes packages kubelet and kubeadm
// (kubernetes/release: cmd/krel/templates/latest).
const (
	kubeletUnit = `[Unit]
Description=kubelet
Wants=network-online.target
After=network-online.target containerd.service

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
`
	kubeletDropIn = `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`
	// Drop-in for a kubelet without an API server.
	standaloneDropInPath = "/etc/systemd/system/kubelet.service.d/20-standalone.conf"
	standaloneDropIn     = "[Service]\nEnvironment=KUBELET_KUBECONFIG_ARGS=\n"
)

// LayoutFunc returns the files, by path, that set the kubelet's flags and its KubeletConfiguration.
// One of the files makes the kubelet run without an API server. If the machine can join a cluster,
// the path of that file must be [standaloneDropInPath].
type LayoutFunc func(config string, flags []string) map[string]string

// KubeadmLayout is the layout of kubeadm and the Kubernetes packages.
func KubeadmLayout(config string, flags []string) map[string]string {
	return map[string]string{
		"/usr/lib/systemd/system/kubelet.service":                     kubeletUnit,
		"/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf":   kubeletDropIn,
		"/etc/systemd/system/multi-user.target.wants/kubelet.service": "-> /usr/lib/systemd/system/kubelet.service",
		"/etc/default/kubelet":                                        "KUBELET_EXTRA_ARGS=\n",
		"/var/lib/kubelet/kubeadm-flags.env":                          fmt.Sprintf("KUBELET_KUBEADM_ARGS=\"%s\"\n", strings.Join(flags, " ")),
		"/var/lib/kubelet/config.yaml":                                config,
		standaloneDropInPath:                                          standaloneDropIn,
	}
}

// nodeFiles returns the files that make the machine a node.
func (m *Machine) nodeFiles(t testing.TB) map[string]string {
	t.Helper()
	registry := StartRegistry(t, m.options.Net, "", testregistry.Options{})
	pause := registry.PushApp(t, "pause", "1")
	m.ForwardAddress(t, registry.Host)
	m.ForwardAddress(t, m.options.Net.Addr())
	flags := []string{"--hostname-override=" + m.Name(), "--node-ip=" + m.Address(), "--v=1", "--vmodule=plugin=5,kuberuntime_image=4,event=3"}
	layout := m.options.Layout
	if layout == nil {
		layout = KubeadmLayout
	}
	files := layout(m.kubeletConfig(t), append(flags, m.options.Flags...))
	if m.options.control != nil {
		delete(files, standaloneDropInPath)
		maps.Copy(files, m.joinFiles(t))
	}
	maps.Copy(files, map[string]string{
		"/etc/containerd/config.toml":                                    fmt.Sprintf(machineContainerdConfig, pause),
		"/etc/systemd/system/containerd.service.d/net.conf":              m.netDropIn(t),
		"/etc/systemd/system/multi-user.target.wants/containerd.service": "-> /usr/lib/systemd/system/containerd.service",
		"/etc/kubernetes/manifests/.keep":                                "",
	})
	return files
}

// netDropIn returns a systemd drop-in that makes containerd use the fake network as its proxy. It
// copies the network's CA certificate into the machine.
func (m *Machine) netDropIn(t testing.TB) string {
	t.Helper()
	ca, err := os.ReadFile(m.options.Net.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	const file = "/etc/ssl/certs/net.pem"
	m.WriteFile(t, file, string(ca), 0o644)
	var b strings.Builder
	b.WriteString("[Service]\n")
	for _, e := range m.options.Net.Environ() {
		fmt.Fprintf(&b, "Environment=%q\n", strings.ReplaceAll(e, m.options.Net.CAFile(), file))
	}
	return b.String()
}

// kubeletConfig returns the KubeletConfiguration of [Kubelet] with kubeadm's paths.
func (m *Machine) kubeletConfig(t testing.TB) string {
	t.Helper()
	m.Kubelet.Options.Runtime = &Containerd{}
	config := m.Kubelet.config(t)
	maps.Copy(config, map[string]any{
		"staticPodPath": "/etc/kubernetes/manifests", "containerRuntimeEndpoint": "unix://" + machineRuntimeSocket, "port": 10250,
	})
	for _, other := range []string{"healthzPort", "podLogsDir", "volumePluginDir"} {
		delete(config, other)
	}
	if m.options.control != nil {
		m.joinConfig(config)
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// connectContainerd creates the clients for the machine's containerd.
func (m *Machine) connectContainerd(t testing.TB) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+m.HostRoot()+machineRuntimeSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	m.Containerd = &Containerd{ImageServiceClient: runtimeapi.NewImageServiceClient(conn), RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn)}
}
