// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcri"
)

// TestPrepullOnTerminal checks the progress output while images are pulled. The pulls finish after
// the progress output has appeared.
func TestPrepullOnTerminal(t *testing.T) {
	seen := make(chan struct{})
	server := &testcri.Server{OnPullImage: func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) {
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return "sha256:x", ctx.Err()
	}}
	server.Start(t)
	var images []string
	for i := range 3 {
		images = append(images, fmt.Sprintf("registry.example/app%d:v1", i))
	}
	args := append([]string{"prepull", "--no-color", "--pull-policy", "Always", "--timeout", "20s", "--runtime-endpoint", server.Socket, "-f", writeImageList(t, images...)}, writeRuntimeConfig(t, "good", "registry.example")...)

	screen := prepullOnTerminal(t, args, nil, func(screen string) bool {
		return strings.Contains(screen, "0 of 3 images") && strings.Contains(screen, "registry.example/app2:v1 ")
	}, sync.OnceFunc(func() { close(seen) }))
	for _, image := range images {
		if !strings.Contains(screen, "ok      "+image+": pulled") {
			t.Errorf("no line for %s", image)
		}
	}
	if strings.Contains(screen, "%") {
		t.Error("there is a percentage of an unknown size")
	}
	if t.Failed() {
		t.Logf("screen: %q", screen)
	}

	// If standard output is a file, the results are written to the file. On a dumb terminal, no
	// progress is drawn.
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "out")))(t)
	defer file.Close()
	prepullOnTerminal(t, args, file, nil, nil)
	out, err := os.ReadFile(file.Name())
	if err != nil || strings.Contains(string(out), "\x1b") || strings.Count(string(out), "ok      registry.example/") != 3 {
		t.Errorf("the file has %q, %v", out, err)
	}
	t.Setenv("TERM", "dumb")
	if screen := prepullOnTerminal(t, args, nil, nil, nil); strings.Contains(screen, "\x1b") {
		t.Errorf("drawn on a dumb terminal: %q", screen)
	}
}

// prepullOnTerminal runs regcred with a terminal as standard error and, if stdout is nil, as
// standard output. It returns the terminal's output. Whenever until returns true for the output so
// far, it calls then.
func prepullOnTerminal(t *testing.T, args []string, stdout *os.File, until func(string) bool, then func()) string {
	t.Helper()
	regcred := must.Get(exec.LookPath("regcred"))(t)
	master, slave := openTerminal(t)
	cmd := exec.Command(regcred, args...)
	if os.Getenv("TERM") != "dumb" {
		cmd.Env = append(os.Environ(), "TERM=xterm")
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if stdout != nil {
		cmd.Stdout = stdout
	}
	must.Do(t, cmd.Start())
	slave.Close()
	var screen bytes.Buffer
	buf := make([]byte, 4096)
	for {
		n, err := master.Read(buf) // returns an error when the last writer has closed
		screen.Write(buf[:n])
		if until != nil && until(screen.String()) {
			then()
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("prepull: %v\n%s", err, screen.String())
	}
	return screen.String()
}
