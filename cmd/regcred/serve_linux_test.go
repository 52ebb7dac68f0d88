// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/serve/client"
	"github.com/regcred/regcred/internal/testenv"
)

// serveProcess is a running "regcred serve".
type serveProcess struct {
	t      *testing.T
	dir    string
	socket string
	cmd    *exec.Cmd
}

// examplePlugin is a plugin that counts its runs.
const examplePlugin = `#!/bin/sh
cat >/dev/null
echo "${REGCRED_SOCKET:-client}" >>%q
%s
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","cacheDuration":"10m0s","auth":{%s}}'
`

// startServe starts the service as a process, with a plugin "example" for registry.example and a
// plugin "empty" for empty.example.
func startServe(t *testing.T, args ...string) *serveProcess {
	t.Helper()
	dir := t.TempDir()
	s := &serveProcess{t: t, dir: dir, socket: filepath.Join(dir, "run", "regcred.sock")}
	must.Do(t, os.Symlink(must.Get(os.Executable())(t), s.path("regcred")))
	must.Do(t, os.MkdirAll(s.path("bin"), 0o755))
	must.Do(t, os.WriteFile(s.path("bin/example"), fmt.Appendf(nil, examplePlugin, s.path("runs"), "", `"registry.example":{"username":"ci","password":"example-password"}`), 0o755))
	must.Do(t, os.WriteFile(s.path("bin/empty"), fmt.Appendf(nil, examplePlugin, s.path("runs"), "echo starting >&2", ""), 0o755))
	config := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	for _, p := range [][2]string{{"example", "registry.example"}, {"empty", "empty.example"}} {
		config += fmt.Sprintf("- {name: %s, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: [%s], defaultCacheDuration: 0s}\n", p[0], p[1])
	}
	must.Do(t, os.WriteFile(s.path("providers.yaml"), []byte(config), 0o600))
	s.start(args...)
	return s
}

func (s *serveProcess) path(name string) string { return filepath.Join(s.dir, name) }

func (s *serveProcess) start(args ...string) {
	s.t.Helper()
	s.cmd = exec.Command(s.path("regcred"), append([]string{"serve", "--config", s.path("providers.yaml"), "--bin-dir", s.path("bin"), "--socket", s.socket, "--count-dir", s.path("count")}, args...)...)
	log := must.Get(os.OpenFile(s.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(s.t)
	defer log.Close()
	s.cmd.Stderr = log
	s.cmd.Env = append(os.Environ(), "GORACE="+noRaceSleep)
	must.Do(s.t, s.cmd.Start())
	s.t.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		canary.AssertAbsent(s.t, "the log", s.log())
		if strings.Contains(s.log(), "example-password") {
			s.t.Error("the log contains the password")
		}
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := (&client.Service{Socket: s.socket}).Lookup(s.t.Context(), client.Selector{}, client.LookupRequest{Image: "x.example/x"}); err == nil {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("the service does not respond: %s", s.log())
		}
	}
}

func (s *serveProcess) log() string {
	s.t.Helper()
	return string(must.Get(os.ReadFile(s.path("log")))(s.t))
}

// runs returns the number of plugin runs by the service and by clients, and resets them.
func (s *serveProcess) runs() (byService, byClients int) {
	data, _ := os.ReadFile(s.path("runs"))
	_ = os.Remove(s.path("runs"))
	byService = strings.Count(string(data), client.SocketNone+"\n")
	return byService, strings.Count(string(data), "\n") - byService
}

// regcred runs regcred with the service's configuration.
func (s *serveProcess) regcred(args ...string) (stdout, stderr string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.path("regcred"), append(args, "--no-node-config")...)
	cmd.Env = append(os.Environ(), "REGCRED_CONFIG="+s.path("providers.yaml"), "REGCRED_BIN_DIR="+s.path("bin"), client.SocketEnv+"="+s.socket)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	_ = cmd.Run()
	return out.String(), errOut.String()
}

// TestServeClients verifies which commands use the service, that the result is the same as without it,
// and that they run the plugin if the service is frozen, killed or stopped.
func TestServeClients(t *testing.T) {
	s := startServe(t)
	const image = "registry.example/team/app"
	check := func(step string, service, clients int, args ...string) (stdout, stderr string) {
		t.Helper()
		stdout, stderr = s.regcred(args...)
		gotService, gotClients := s.runs()
		if gotService != service || gotClients != clients {
			t.Errorf("%s: the service ran the plugin %d times, the client %d times; want %d and %d\n%s", step, gotService, gotClients, service, clients, stderr)
		}
		return stdout, stderr
	}
	for step, runs := range []int{1, 0, 0} {
		if out, stderr := check(fmt.Sprint("get ", step), runs, 0, "get", "-o", "docker-config", image); !strings.Contains(out, `"auth": "Y2k6ZXhhbXBsZS1wYXNzd29yZA=="`) || stderr != "" {
			t.Errorf("get: %s%s", out, stderr)
		}
	}
	if out, _ := check("exec --materialize", 0, 0, "exec", "--materialize", "--image", image, "--no-node-config", "--", "true"); out != "" {
		t.Error(out)
	}
	check("explain shows a run of the plugin", 0, 1, "explain", image)
	// A plugin's message is shown even if the service declines.
	must.Do(t, os.WriteFile(s.path("bin/new"), must.Get(os.ReadFile(s.path("bin/empty")))(t), 0o755))
	other := strings.ReplaceAll(string(must.Get(os.ReadFile(s.path("providers.yaml")))(t)), "name: empty", "name: new")
	must.Do(t, os.WriteFile(s.path("other.yaml"), []byte(other), 0o600))
	if _, stderr := check("another configuration", 0, 1, "get", "--config", s.path("other.yaml"), "empty.example/app"); !strings.Contains(stderr, `note: provider "new" has no credentials: starting`) {
		t.Errorf("%q", stderr)
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		must.Do(t, s.cmd.Process.Signal(sig))
		time.Sleep(50 * time.Millisecond)
		if out, _ := check(sig.String(), 0, 1, "get", image); !strings.Contains(out, "provider example") {
			t.Errorf("%v: %s", sig, out)
		}
	}
	_ = s.cmd.Wait()
	s.start() // replaces the socket of the killed process
	check("after the restart", 1, 0, "get", image)
	must.Do(t, s.cmd.Process.Signal(syscall.SIGTERM))
	_ = s.cmd.Wait()
	check("after the stop", 0, 1, "get", image)
}

// TestServeErrors verifies the errors of invalid flags and of a second service.
func TestServeErrors(t *testing.T) {
	s := startServe(t, "-o", "json")
	if line, _, _ := strings.Cut(s.log(), "\n"); !strings.HasPrefix(line, `{"time":"`) {
		t.Errorf("-o json logs %q", line)
	}
	config := []string{"--config", s.path("providers.yaml"), "--bin-dir", s.path("bin")}
	must.Do(t, os.WriteFile(s.path("invalid.yaml"), []byte("kind: x\n"), 0o600))
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--socket " + s.socket, exitFailed, s.socket + ": another process already serves this socket"},
		{"--socket " + s.path("run/other.sock") + " --max-connections 0", exitUsage, "--max-connections and --max-connections-per-user must be at least 1"},
		{"--socket " + s.path("run/other.sock") + " --allow-uid 4294967295", exitUsage, "--allow-uid 4294967295: not a user or group ID"},
		{"--socket " + s.path("run/other.sock") + " --as-kubelet", exitUsage, "serve supports neither --as-kubelet nor --root-dir"},
		{"x", exitUsage, "unexpected argument"},
	} {
		code, _, stderr := runApp(t, append(append([]string{"serve"}, config...), strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, %s, want %d, %s", tt.args, code, stderr, tt.code, tt.want)
		}
	}
	for what, args := range map[string][]string{
		"only a configuration":  {"serve", "--config", s.path("providers.yaml")},
		"invalid configuration": {"serve", "--config", s.path("invalid.yaml"), "--bin-dir", s.path("bin"), "--socket", s.path("run/other.sock")},
		"no directory":          {"serve", "--config", s.path("providers.yaml"), "--bin-dir", s.path("none"), "--socket", s.path("run/other.sock")},
	} {
		if code, _, stderr := runApp(t, args...); code == exitOK || !strings.HasPrefix(stderr, "error: ") {
			t.Errorf("%s: exit code %d, %s", what, code, stderr)
		}
	}
	if _, err := os.Lstat(s.path("run/other.sock")); err == nil {
		t.Error("the socket of a service that could not start exists")
	}
}

// TestServeDocs runs the examples of docs/serve.md.
func TestServeDocs(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		testenv.SkipUnlessAvailable(t, "curl", "curl is not installed")
	}
	s := startServe(t)
	doc := string(must.Get(os.ReadFile("../../docs/serve.md"))(t))
	_, doc, _ = strings.Cut(doc, "<!-- test -->\n```console\n")
	doc, _, ok := strings.Cut(doc, "```\n")
	if !ok || strings.Count(doc, "$ ") < 6 {
		t.Fatal("the page has no examples")
	}
	var got strings.Builder
	for line := range strings.Lines(doc) {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		got.WriteString(line)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, client.DefaultSocket, s.socket)).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		got.WriteString(strings.ReplaceAll(string(out), "\n\n", "\n"))
	}
	if diff := cmp.Diff(normalizeExample(doc), normalizeExample(got.String())); diff != "" {
		t.Errorf("(-docs +got)\n%s", diff)
	}
}

// normalizeExample removes the parts of a response that differ in each run.
func normalizeExample(s string) string {
	for _, p := range []string{`\d{4}-\d\d-\d\dT[\d:.]+Z`, `,"ageSeconds":[\d.e-]+`, `"durationSeconds":[\d.e-]+`, `"traceId":"[^"]+"`, `"sha256:[^"]+"`, `"cacheDuration":"[^"]+"`} {
		s = regexp.MustCompile(p).ReplaceAllString(s, "")
	}
	return s
}

// TestServeFewDescriptors verifies that clients work while the service has no file descriptors left, and
// that it recovers.
func TestServeFewDescriptors(t *testing.T) {
	s := startServe(t)
	var limit unix.Rlimit
	must.Do(t, unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 24, Max: 24}, &limit))
	var held []net.Conn
	for range 100 {
		held = append(held, must.Get(net.Dial("unix", s.socket))(t))
	}
	if out, stderr := s.regcred("get", "registry.example/app"); !strings.Contains(out, "provider example") {
		t.Errorf("without descriptors: %s%s", out, stderr)
	}
	if _, clients := s.runs(); clients != 1 {
		t.Errorf("the client ran the plugin %d times", clients)
	}
	for _, c := range held {
		c.Close()
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if found, err := (&client.Service{Socket: s.socket}).Lookup(t.Context(), client.Selector{}, client.LookupRequest{Image: "registry.example/app"}); err == nil && len(found.Credentials) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the service does not recover: %s", s.log())
		}
	}
}

// hasRaceDetector reports whether this program, which is also the service, contains the race
// detector, whose own memory is several times that of the program.
func hasRaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// TestServeManyConnections verifies that 10,000 connections do not add much memory to the service.
func TestServeManyConnections(t *testing.T) {
	s := startServe(t)
	memory := func() (kB int) {
		data := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)))(t))
		_, data, _ = strings.Cut(data, "RssAnon:")
		_, err := fmt.Sscan(data, &kB)
		must.Do(t, err)
		return kB
	}
	before := memory()
	var held []net.Conn
	for range 10_000 {
		c, err := net.Dial("unix", s.socket)
		if err != nil {
			continue // this process's own limit
		}
		held = append(held, c)
		defer c.Close()
	}
	after := memory()
	t.Logf("%d connections: %d kB before, %d kB after", len(held), before, after)
	if len(held) < 1500 {
		t.Errorf("only %d connections", len(held))
	}
	if after-before > 64<<10 && !hasRaceDetector() {
		t.Errorf("%d connections: %d kB before, %d kB after", len(held), before, after)
	}
	if out, stderr := s.regcred("get", "registry.example/app"); !strings.Contains(out, "provider example") {
		t.Errorf("%s%s", out, stderr)
	}
}
