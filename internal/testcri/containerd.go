// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testcri has container runtimes for tests of pulls over CRI: the real
// containerd, and a server that answers what a test says, for the faults that
// containerd does not commit on request.
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

// Containerd is a containerd of the test's own, for pulls alone: no container
// runs in it.
type Containerd struct {
	Socket string // of the CRI

	t       testing.TB
	dir     string
	pause   string // image of SandboxImage
	environ []string

	mu  sync.Mutex
	cmd *exec.Cmd // nil while it is stopped
}

// StartContainerd runs containerd until the test ends, with environ added to
// its environment. Registries on loopback are reached over plain HTTP. Where
// it cannot run the test is skipped, unless REGCRED_TEST_REQUIRE, a list with
// commas, names containerd.
func StartContainerd(t testing.TB, environ ...string) *Containerd {
	t.Helper()
	require(t)
	// Not t.TempDir: the path of a socket has at most 107 bytes.
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
	c.SandboxImage("pause.invalid/pause:1")
	c.Start()
	return c
}

// Config is the path of its config.toml.
func (c *Containerd) Config() string { return c.path("config.toml") }

// SandboxImage has it start pods in an image, from its next start on.
func (c *Containerd) SandboxImage(image string) {
	c.t.Helper()
	c.pause = image
	if err := os.WriteFile(c.Config(), []byte(c.config()), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func require(t testing.TB) {
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
	testenv.SkipWithout(t, "containerd", "%s", why)
}

func (c *Containerd) path(name string) string { return filepath.Join(c.dir, name) }

// config leaves out what only containers need. The native snapshotter copies
// directories, and so works on every file system.
func (c *Containerd) config() string {
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
`, c.path("root"), c.path("state"), c.Socket, c.pause, c.path("certs.d"))
}

// Start starts it, with what it had before it was stopped.
func (c *Containerd) Start() {
	c.t.Helper()
	cmd := exec.Command("containerd", "--config", c.Config())
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
				for lines.Scan() { // or it would block on a full pipe
				}
			}()
			return
		}
	}
	c.t.Fatalf("containerd ended before it served:\n%s", said.String())
}

// Stop ends it as an init system does.
func (c *Containerd) Stop() { c.end(syscall.SIGTERM) }

// Kill ends it without warning.
func (c *Containerd) Kill() { c.end(syscall.SIGKILL) }

func (c *Containerd) end(sig os.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		return
	}
	_ = c.cmd.Process.Signal(sig) // it may have ended
	_ = c.cmd.Wait()              // as it was told to
	c.cmd = nil
}

// Mirror has it ask another host for the images of a registry, as a hosts.toml
// does: Mirror("docker.io", "http://127.0.0.1:5000"). No certificate is checked.
func (c *Containerd) Mirror(registry, url string) {
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
