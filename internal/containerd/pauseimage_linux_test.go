// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcri"
)

// TestMain makes the test binary act as containerd: it listens on a socket, and prints its
// configuration file for "config dump".
func TestMain(m *testing.M) {
	socket := os.Getenv("TEST_CONTAINERD_SOCKET")
	switch {
	case slices.Equal(os.Args[min(len(os.Args), 3):], []string{"config", "dump"}):
		data, err := os.ReadFile(os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Stdout.Write(data)
	case socket != "":
		l, err := net.Listen("unix", socket)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("serving")
		io.Copy(io.Discard, os.Stdin) // until the test ends
		l.Close()
	default:
		os.Exit(m.Run())
	}
}

// startRuntime starts the test binary as a containerd that listens on socket.
func startRuntime(t *testing.T, cmd *exec.Cmd, socket string) {
	t.Helper()
	cmd.Env = append(cmd.Env, "TEST_CONTAINERD_SOCKET="+socket)
	stdin := must.Get(cmd.StdinPipe())(t)
	stdout := must.Get(cmd.StdoutPipe())(t)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); errors.Is(err, fs.ErrPermission) {
		t.Skip("root of a container that may not have mounts of its own: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	if said, err := io.ReadAll(io.LimitReader(stdout, 8)); string(said) != "serving\n" {
		t.Fatalf("it says %q, %v", said, err)
	}
}

// socketDir creates a directory whose path is short enough for a socket. All users can enter it.
func socketDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "ctd"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o755))
	return dir
}

func TestPauseImage(t *testing.T) {
	const (
		two   = "version = 3\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'it.example/pause:2'\n"
		one   = "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nsandbox_image = 'it.example/pause:1'\n"
		login = "[plugins.'io.containerd.grpc.v1.cri'.registry.configs.'it.example'.auth]\npassword = '" + canary.PasswordSecret + "'\n"
	)
	for _, tt := range []struct{ name, config, want, fails string }{
		{name: "containerd 2", config: two, want: "it.example/pause:2"},
		{name: "containerd 1", config: one + login, want: "it.example/pause:1"},
		{name: "both keys", config: two + strings.TrimPrefix(one, "version = 2\n"), want: "it.example/pause:2"},
		{name: "no key", config: "version = 3\n" + login, fails: "no pause image is set: is the CRI plugin disabled?"},
		{name: "a list", config: "[plugins.'io.containerd.cri.v1.images']\npinned_images = ['a']\n", fails: "no pause image is set"},
		{name: "no TOML", config: login + "= '" + canary.PasswordSecret, fails: "invalid TOML"},
		{name: "too much", config: strings.Repeat("# more\n", 1<<18), fails: "the output is longer than 1048576 bytes"},
		{name: "no file", fails: "config dump\": exit status 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := socketDir(t)
			file := filepath.Join(dir, "c.toml")
			if tt.config != "" {
				must.Do(t, os.WriteFile(file, []byte(tt.config), 0o600))
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "--log-level=debug", "-c", "c.toml")
			cmd.Dir = dir // relative paths start here
			startRuntime(t, cmd, filepath.Join(dir, "s"))
			image, from, err := containerd.PauseImage(t.Context(), filepath.Join(dir, "s"))
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), canary.PasswordSecret) {
					t.Errorf("got %q, %v; want %q and %s in it", image, err, tt.fails, file)
				}
				return
			}
			if err != nil || image != tt.want || from != file {
				t.Errorf("got %q from %q, %v; want %q from %q", image, from, err, tt.want, file)
			}
		})
	}
}

// TestPauseImageOfOthers verifies that PauseImage does not run the program of a process that
// belongs to another user or sees other files.
func TestPauseImageOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process as another user, or with mounts of its own")
	}
	const nobody = 65534
	dir := socketDir(t)
	program := must.Get(os.ReadFile(os.Args[0]))(t)
	path, file := filepath.Join(dir, "containerd"), filepath.Join(dir, "c.toml")
	for name, data := range map[string][]byte{path: program, file: nil, file + ".other": nil} {
		must.Do(t, os.WriteFile(name, data, 0o755))
	}
	must.Do(t, os.Chown(dir, nobody, nobody))
	user := exec.CommandContext(t.Context(), path)
	user.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	mounts := exec.CommandContext(t.Context(), "sh", "-c", `mount --bind "$1.other" "$1" && exec "$0" --config="$1"`, path, file)
	mounts.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	for socket, tt := range map[string]struct {
		cmd   *exec.Cmd
		fails string
	}{
		"user":   {user, "belongs to user 65534, and regcred does not run"},
		"mounts": {mounts, "containerd sees a different file at " + file + " than this process"},
	} {
		t.Run(socket, func(t *testing.T) {
			socket := filepath.Join(dir, socket)
			startRuntime(t, tt.cmd, socket)
			_, _, err := containerd.PauseImage(t.Context(), socket)
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("got %v, want %q", err, tt.fails)
			}
		})
	}
}

// TestPauseImageOfContainerd verifies PauseImage with a real containerd whose file has changed
// since its start.
func TestPauseImageOfContainerd(t *testing.T) {
	c := testcri.StartContainerd(t)
	c.SetSandboxImage("it.example/pause:3")
	began := time.Now()
	image, file, err := containerd.PauseImage(t.Context(), c.Socket)
	if err != nil || image != "it.example/pause:3" || file != c.ConfigPath() {
		t.Errorf("got %q from %q, %v", image, file, err)
	}
	t.Logf("in %v", time.Since(began).Round(time.Millisecond))
}
