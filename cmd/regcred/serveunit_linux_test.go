// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/serve/client"
	"github.com/regcred/regcred/internal/testenv"
)

// serveRoot returns a file tree with the service's units.
func serveRoot(t *testing.T, service, socket string) string {
	t.Helper()
	root := systemdRoot(t, readDeploy(t, "systemd/"+prepullUnit))
	for name, text := range map[string]string{
		"/etc/systemd/system/regcred.service":    service,
		"/etc/systemd/system/regcred.socket":     socket,
		"/usr/lib/systemd/system/sockets.target": "[Unit]\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	return root
}

// TestServeUnits verifies that systemd accepts every line of the units, that their sandbox is as tight as
// documented, and that the socket is only for root.
func TestServeUnits(t *testing.T) {
	service, socket := readDeploy(t, "systemd/regcred.service"), readDeploy(t, "systemd/regcred.socket")
	root := serveRoot(t, service, socket)
	if out, err := exec.CommandContext(t.Context(), "systemctl", "--root", root, "enable", "regcred.service").CombinedOutput(); err != nil {
		t.Fatalf("systemctl enable: %v\n%s", err, out)
	}
	for _, link := range []string{"multi-user.target.wants/regcred.service", "sockets.target.wants/regcred.socket"} {
		if _, err := os.Lstat(filepath.Join(root, "/etc/systemd/system", link)); err != nil {
			t.Error(err)
		}
	}
	if said := systemdAnalyze(t, "verify", "--root="+root, "regcred.service", "regcred.socket", "kubelet.service"); said != "" {
		t.Errorf("systemd-analyze verify:\n%s", said)
	}
	said := systemdAnalyze(t, "security", "--offline=true", "--threshold=30", "--root="+root, "regcred.service")
	if strings.Contains(said, "exit status") {
		t.Errorf("systemd-analyze security:\n%s", said)
	}
	t.Log(said[strings.LastIndex(strings.TrimSpace(said), "\n")+1:])
	for unit, lines := range map[string][]string{
		service: {"Type=notify", "ReadWritePaths=/run/regcred", "NoNewPrivileges=yes", "ProtectSystem=strict"},
		socket:  {"ListenStream=" + client.DefaultSocket, "SocketMode=0600", "DirectoryMode=0700"},
	} {
		for _, line := range lines {
			if !strings.Contains(unit, "\n"+line+"\n") {
				t.Errorf("a unit has no line %s", line)
			}
		}
	}
	for _, setting := range []string{"User=", "DynamicUser=", "PrivateUsers=", "PrivateNetwork=", "RuntimeDirectory=", "MemoryDenyWriteExecute=", "ProcSubset=", "network-online"} {
		if strings.Contains(service, "\n"+setting) {
			t.Errorf("%s prevents plugins from working", setting)
		}
	}
	// Errors are found.
	for _, tt := range []struct{ from, to, want string }{
		{"ProtectHome=", "ProtectHomes=", "Unknown key"},
		{"After=regcred.socket", "After=regcred.socket kubelet.service", "ordering cycle"},
	} {
		root := serveRoot(t, strings.Replace(service, tt.from, tt.to, 1), socket)
		if out, err := exec.CommandContext(t.Context(), "systemctl", "--root", root, "enable", "regcred.service").CombinedOutput(); err != nil {
			t.Fatalf("systemctl enable: %v\n%s", err, out)
		}
		if said := systemdAnalyze(t, "verify", "--root="+root, "regcred.service", "kubelet.service"); !strings.Contains(said, tt.want) {
			t.Errorf("%s: no %q in %q", tt.to, tt.want, said)
		}
	}
}

// TestServeOpenRC verifies the syntax of the script and the command that it runs.
func TestServeOpenRC(t *testing.T) {
	path := deployDir + "openrc/regcred"
	if out, err := exec.CommandContext(t.Context(), "sh", "-n", path).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `command_args=--max-connections=10; . "$0"; checkpath() { echo checkpath "$@"; }; before() { :; }; depend; start_pre; echo "$command $command_args"`, must.Get(filepath.Abs(path))(t)).CombinedOutput()
	want := "checkpath --directory --mode 0700 --owner root:root " + filepath.Dir(client.DefaultSocket) + "\n/usr/local/bin/regcred serve --max-connections=10\n"
	if err != nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}

// TestServeActivation verifies that the service uses a socket from systemd, that the socket remains when
// the service stops, and that plugins do not get systemd's variables.
func TestServeActivation(t *testing.T) {
	if _, err := exec.LookPath("systemd-socket-activate"); err != nil {
		testenv.SkipUnlessAvailable(t, "systemd", "systemd-socket-activate is not installed")
	}
	s := startServe(t) // only for its files
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	socket := s.path("activated.sock")
	must.Do(t, os.WriteFile(s.path("bin/example"), []byte("#!/bin/sh\ncat >/dev/null\nenv >"+s.path("env")+"\nexit 1\n"), 0o755))
	cmd := exec.Command("systemd-socket-activate", "--listen="+socket, "--fdname=regcred", s.path("regcred"), "serve", "--config", s.path("providers.yaml"), "--bin-dir", s.path("bin"), "--count-dir", s.path("count"), "--socket", s.path("unused"))
	cmd.Env = append(os.Environ(), "GORACE="+noRaceSleep, "NOTIFY_SOCKET="+s.path("notify"))
	must.Do(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(socket); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("systemd-socket-activate created no socket")
		}
	}
	out, err := exec.CommandContext(t.Context(), "curl", "-sS", "--unix-socket", socket, "-d", `{"image":"registry.example/app"}`, "http://localhost/v1/lookup").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "exit status 1") {
		t.Fatalf("%v: %s", err, out)
	}
	env := string(must.Get(os.ReadFile(s.path("env")))(t))
	for _, name := range []string{"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET"} {
		if strings.Contains(env, name) {
			t.Errorf("the plugin got %s", name)
		}
	}
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	if _, err := os.Lstat(s.path("unused")); err == nil {
		t.Error("the service created a second socket")
	}
}
