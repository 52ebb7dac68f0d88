// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
)

// Containerd is a running containerd and a client for it.
type Containerd struct {
	runtimeapi.ImageServiceClient
	runtimeapi.RuntimeServiceClient

	dir     string
	process *testProcess
}

// containerdConfig is a template for the runtime's directory and the sandbox image. It
// moves all paths that are outside that directory by default.
const containerdConfig = `version = 2
root = "%[1]s/root"
state = "%[1]s/state"
[grpc]
  address = "%[1]s/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/opt"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "%[2]s"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[1]s/cni/bin"
    conf_dir = "%[1]s/cni/conf"
`

// containerdHosts enables hosts.toml files.
const containerdHosts = `  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "%s/certs.d"
`

// StartContainerd starts a runtime that can reach the registries of net.
func StartContainerd(t testing.TB, net *testcloud.FakeNetwork) *Containerd {
	t.Helper()
	return StartContainerdWith(t, net, nil)
}

// StartContainerdWith is [StartContainerd] with hosts.toml files, keyed by registry host.
func StartContainerdWith(t testing.TB, net *testcloud.FakeNetwork, hosts map[string]string) *Containerd {
	t.Helper()
	dir := tempDir(t, "containerd")
	c := &Containerd{dir: dir, process: newProcess(t, dir, net.Environ(), "containerd")}
	pause := StartRegistry(t, net, "", testregistry.Options{}).PushApp(t, "pause", "1")
	config := fmt.Sprintf(containerdConfig, c.dir, pause)
	if hosts != nil {
		config += fmt.Sprintf(containerdHosts, c.dir)
	}
	for host, text := range hosts {
		writeFile(t, text, c.dir, "certs.d", host, "hosts.toml")
	}
	writeFile(t, config, c.dir, "config.toml")
	conn, err := grpc.NewClient(c.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c.ImageServiceClient, c.RuntimeServiceClient = runtimeapi.NewImageServiceClient(conn), runtimeapi.NewRuntimeServiceClient(conn)
	c.Start(t)
	t.Cleanup(c.removeSandboxes)
	return c
}

// Endpoint returns the URL of the runtime's socket, "unix://…".
func (c *Containerd) Endpoint() string { return "unix://" + filepath.Join(c.dir, "containerd.sock") }

// ConfigPath returns the path of config.toml.
func (c *Containerd) ConfigPath() string { return filepath.Join(c.dir, "config.toml") }

// Start starts containerd again after [Containerd.Stop].
func (c *Containerd) Start(t testing.TB) {
	t.Helper()
	c.process.start(t, "--log-level", "warn", "--config", filepath.Join(c.dir, "config.toml"))
	c.process.waitReady(t, func(ctx context.Context) error {
		// The gRPC client logs to stderr while the socket does not exist.
		if _, err := os.Stat(strings.TrimPrefix(c.Endpoint(), "unix://")); err != nil {
			return err
		}
		_, err := c.Version(ctx, &runtimeapi.VersionRequest{}, grpc.WaitForReady(true))
		return err
	})
}

// Stop kills containerd. Containers keep running.
func (c *Containerd) Stop() { c.process.stop() }

// HasImage reports whether the runtime has an image.
func (c *Containerd) HasImage(t testing.TB, image string) bool {
	t.Helper()
	answer, err := c.ImageStatus(t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetImage() != nil
}

// removeSandboxes removes all pod sandboxes. It ignores errors, since anything left ends
// with the namespaces.
func (c *Containerd) removeSandboxes() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	list, err := c.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return
	}
	var jobs []func() error
	for _, s := range list.GetItems() {
		jobs = append(jobs, func() error {
			_, err := c.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.GetId()})
			return err
		})
	}
	_ = runJobs(jobs)
}
