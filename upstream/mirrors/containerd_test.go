// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package mirrors

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/must"
)

// containerdDaemon is a containerd with its own configuration.
type containerdDaemon struct {
	dir     string
	version containerd.Version
	images  runtimeapi.ImageServiceClient
}

// buildPrograms returns the containerd programs by version.
func buildPrograms() map[string]string { return map[string]string{"1.6": "containerd", "2": containerd2()} }

// startContainerd starts a containerd that trusts only the CA in the file ca. In the configuration, it
// replaces DIR with the containerd's directory.
func startContainerd(t *testing.T, program, config, ca string) *containerdDaemon {
	t.Helper()
	return startPreparedContainerd(t, program, config, ca, func(string) {})
}

// startPreparedContainerd is like [startContainerd], but first calls prepare with the containerd's directory.
func startPreparedContainerd(t *testing.T, program, config, ca string, prepare func(dir string)) *containerdDaemon {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "d") // /run is in memory
	if err != nil {
		t.Fatal(err)
	}
	out := must.Get(exec.Command(program, "--version").Output())(t)
	d := &containerdDaemon{dir: dir, version: containerd.ParseVersion(string(out))}
	if !d.version.IsKnown() {
		d.version = containerd.ParseVersion("2.4.2") // the version in containerd2.mod
	}
	prepare(dir)
	socket := filepath.Join(dir, "s")
	config = strings.ReplaceAll(config, "DIR", dir)
	head, rest, _ := strings.Cut(config, "\n[")
	config = fmt.Sprintf("%s\nroot = %q\nstate = %q\n[grpc]\naddress = %q\n[%s", head, filepath.Join(dir, "root"), filepath.Join(dir, "state"), socket, rest)
	writeFile(t, d.filePath("config.toml"), config)
	cmd := exec.CommandContext(t.Context(), program, "--config", d.filePath("config.toml"), "--log-level", "info")
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+ca, "SSL_CERT_DIR=/nowhere", "no_proxy=*", "NO_PROXY=*")
	log := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	waitReady(t, bufio.NewScanner(log))
	conn := must.Get(grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close() })
	d.images = runtimeapi.NewImageServiceClient(conn)
	d.waitServing(t)
	return d
}

// waitServing waits until containerd's CRI service responds. The service may start after containerd
// reports that it has booted.
func (d *containerdDaemon) waitServing(t *testing.T) {
	t.Helper()
	var err error
	for range 600 {
		if _, err = d.images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{}); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("containerd has booted, and does not respond to a kubelet after 30 s: %v", err)
}

func (d *containerdDaemon) filePath(name string) string { return filepath.Join(d.dir, name) }

// waitReady waits until a daemon reports that it has booted. It continues to read the daemon's
// output.
func waitReady(t *testing.T, lines *bufio.Scanner) {
	t.Helper()
	var said strings.Builder
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "successfully booted") {
			go func() {
				for lines.Scan() {
				}
			}()
			return
		}
	}
	t.Fatalf("containerd ended before it served:\n%s", said.String())
}

// pullImage pulls an image through CRI, as a kubelet does.
func (d *containerdDaemon) pullImage(t *testing.T, image string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := d.images.PullImage(ctx, &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: image}, Auth: &runtimeapi.AuthConfig{Username: kubeletUser, Password: "secret"},
	})
	return err
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}
