// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux || darwin

package pull

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/layout"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// killedPullEnv is an environment variable that makes the test binary pull an image and kill
// itself. Its value is "IMAGE DIR EVENT DELAY". The process is killed DELAY microseconds
// after the progress event with this number.
const killedPullEnv = "REGCRED_TEST_KILLED_PULL"

func TestMain(m *testing.M) {
	if args := strings.Fields(os.Getenv(killedPullEnv)); len(args) == 4 {
		if err := pullAndDie(args); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func pullAndDie(args []string) error {
	at, _ := strconv.Atoi(args[2])
	delay, _ := strconv.Atoi(args[3])
	var mu sync.Mutex
	n := 0
	p := &Puller{Parallel: 1, Progress: func(Event) {
		mu.Lock()
		defer mu.Unlock()
		switch n++; {
		case n == at && delay == 0:
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		case n == at:
			time.AfterFunc(time.Duration(delay)*time.Microsecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		}
	}}
	_, err := p.Pull(context.Background(), args[0], nil, args[1])
	if err == nil {
		fmt.Print(n)
	}
	return err
}

// TestKilled kills a pull at each progress event, and at many times after the last event.
// Each time, the layout must be valid and contain the earlier image. The next pull must
// succeed and remove temporary files.
func TestKilled(t *testing.T) {
	reg, image, digest := startRegistryWith(t, testregistry.Options{}, testregistry.Image{Seed: 1, Layers: 1})
	newer := strings.Replace(image, ":v1", ":v2", 1)
	must.Get(reg.Push("team/app", "v2", testregistry.Image{Seed: 2}))(t)
	self := must.Get(os.Executable())(t)
	// run returns the output of the pull, and whether it was killed.
	run := func(dir string, event, delay int) (string, bool) {
		cmd := exec.Command(self)
		// Without this setting, the race detector sleeps for a second at exit.
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", fmt.Sprintf("%s=%s %s %d %d", killedPullEnv, newer, dir, event, delay))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if err != nil && !status.Signaled() {
			t.Fatal(err)
		}
		return string(out), err != nil
	}
	out, _ := run(t.TempDir(), 0, 0)
	events, err := strconv.Atoi(out)
	if err != nil || events < 12 {
		t.Fatalf("a pull that is not killed has %q events", out)
	}
	type point struct{ event, delay int }
	var points []point
	for event := range events {
		points = append(points, point{event + 1, 0})
	}
	for i := range 25 {
		points = append(points, point{events, 50 + i*i*20})
	}
	killed := 0
	for _, p := range points {
		dir := t.TempDir()
		mustPull(t, &Puller{}, image, nil, dir)
		if _, died := run(dir, p.event, p.delay); died {
			killed++
		}
		if err := layout.CheckDir(t.Context(), dir); err != nil {
			t.Fatalf("killed at %v: %v", p, err)
		}
		if got := taggedDigests(t, dir)[image]; got != digest {
			t.Errorf("killed at %v: index.json has %q for the image that was there, want %q", p, got, digest)
		}
		mustPull(t, &Puller{}, newer, nil, dir) // mustPull reads the whole layout, and finds no temporary files
	}
	if killed < events {
		t.Errorf("%d of %d pulls were killed", killed, len(points))
	}
	t.Logf("%d of %d pulls were killed on the way", killed, len(points))
}
