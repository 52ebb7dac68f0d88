// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testcri provides container runtimes for testing pulls over CRI: the real
// containerd, and a fake server for faults that cannot be provoked in containerd.
package testcri

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/testenv"
)

// Containerd is a containerd process for one test. It only pulls images and does not
// run containers.
type Containerd struct {
	Socket string // path of the CRI socket

	t            testing.TB
	dir          string
	sandboxImage string // image of SetSandboxImage
	environ      []string

	mu  sync.Mutex
	cmd *exec.Cmd // nil while stopped
}

// StartContainerd runs containerd until the test ends, with environ added to its
// environment. containerd uses plain HTTP for registries on loopback. If containerd
// cannot run, StartContainerd skips the test with [testenv.SkipUnlessAvailable].
func StartContainerd(t testing.TB, environ ...string) *Containerd {
	t.Helper()
	requireContainerd(t)
	// Do not use t.TempDir, because a socket's path is limited to 107 bytes.
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	c := &Containerd{Socket: filepath.Join(dir, "cri.sock"), t: t, dir: dir, environ: environ}
	t.Cleanup(func() {
		c.Kill()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("removing containerd's directory: %v", err)
		}
	})
	c.SetSandboxImage("pause.invalid/pause:1")
	c.Start()
	return c
}

// ConfigPath returns the path of containerd's config.toml.
func (c *Containerd) ConfigPath() string { return c.path("config.toml") }

// SetSandboxImage sets the image for pod sandboxes. It takes effect at the next start.
func (c *Containerd) SetSandboxImage(image string) {
	c.t.Helper()
	c.sandboxImage = image
	if err := os.WriteFile(c.ConfigPath(), []byte(c.configTOML()), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func requireContainerd(t testing.TB) {
	t.Helper()
	why := ""
	if _, err := exec.LookPath("containerd"); err != nil {
		why = "containerd is not installed: Debian's package of that name has it; test.sh installs it as root"
	} else if os.Geteuid() != 0 {
		why = "containerd needs root"
	}
	if why == "" {
		return
	}
	testenv.SkipUnlessAvailable(t, "containerd", "%s", why)
}

func (c *Containerd) path(name string) string { return filepath.Join(c.dir, name) }

// configTOML disables plugins that are needed only for containers. It uses the native
// snapshotter, which copies directories and therefore works on every file system.
func (c *Containerd) configTOML() string {
	return fmt.Sprintf(`version = 2
root = %q
state = %q
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  disable_cgroup = true
  sandbox_image = %q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = %q
`, c.path("root"), c.path("state"), c.Socket, c.sandboxImage, c.path("certs.d"))
}

// Start starts containerd. After [Containerd.Stop] or [Containerd.Kill], containerd keeps
// its previous state.
func (c *Containerd) Start() {
	c.t.Helper()
	cmd := exec.Command("containerd", "--config", c.ConfigPath())
	cmd.Env = append(os.Environ(), c.environ...)
	log, err := cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.cmd = cmd
	c.mu.Unlock()
	var said strings.Builder
	for lines := bufio.NewScanner(log); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "successfully booted") {
			go func() {
				for lines.Scan() { // drains the pipe, so that containerd does not block
				}
			}()
			return
		}
	}
	c.t.Fatalf("containerd ended before it served:\n%s", said.String())
}

// Stop sends SIGTERM and waits for containerd to exit.
func (c *Containerd) Stop() { c.stopWithSignal(syscall.SIGTERM) }

// Kill sends SIGKILL and waits for containerd to exit.
func (c *Containerd) Kill() { c.stopWithSignal(syscall.SIGKILL) }

func (c *Containerd) stopWithSignal(sig os.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		return
	}
	_ = c.cmd.Process.Signal(sig) // containerd may have exited already
	_ = c.cmd.Wait()              // being killed by the signal is not an error
	c.cmd = nil
}

// AddMirror adds a mirror for a registry to hosts.toml, for example AddMirror("docker.io",
// "http://127.0.0.1:5000"). Certificates are not verified.
func (c *Containerd) AddMirror(registry, url string) {
	c.t.Helper()
	dir := filepath.Join(c.path("certs.d"), registry)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	toml := fmt.Sprintf("[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n  skip_verify = true\n", url)
	if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(toml), 0o600); err != nil {
		c.t.Fatal(err)
	}
}
