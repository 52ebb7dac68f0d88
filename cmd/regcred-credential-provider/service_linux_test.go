// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/runstats"
	"github.com/regcred/regcred/internal/serve"
	"github.com/regcred/regcred/internal/serve/client"
	"github.com/regcred/regcred/plugin"
)

// runService runs as the node's credential service.
func runService() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s := &serve.Server{
		Source: serve.Source{StateDir: os.Getenv("STATE")}, Environ: os.Environ(), CountDir: os.Getenv("COUNTS"),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	l, release, err := serve.Listen(os.Getenv("SOCKET"), serve.AllowList{})
	if err == nil {
		defer release()
		_ = s.Start()
		err = s.Serve(ctx, l)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// waitForService counts a run of a plugin, in the file that RUNS names, by whether the service runs it.
// It then waits while the file that HOLD names exists. The service and the dispatcher pass these
// variables to plugins.
func waitForService() {
	if path := os.Getenv("RUNS"); path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			os.Exit(3)
		}
		by := "dispatcher\n"
		if os.Getenv("STATE") != "" {
			by = "service\n"
		}
		_, _ = f.WriteString(by)
		f.Close()
	}
	for range 1000 {
		if _, err := os.Stat(os.Getenv("HOLD")); err != nil || os.Getenv("STATE") == "" {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// runListener prints the first request that it receives at a socket.
func runListener(socket string) int {
	l, err := net.Listen("unix", socket)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	c, err := l.Accept()
	if err != nil {
		return 1
	}
	got, _ := io.ReadAll(c)
	fmt.Printf("%d bytes: %s\n", len(got), got)
	return 0
}

// service is a running service of a test node.
type service struct {
	*testNode
	cmd    *exec.Cmd
	socket string
	log    bytes.Buffer
}

// startService starts a service for the node and waits until it responds.
func (n *testNode) startService() *service {
	n.Helper()
	dir := n.TempDir()
	s := &service{testNode: n, socket: filepath.Join(dir, "run", "s")}
	n.requireNoError(os.Link(n.self, filepath.Join(dir, "service")))
	n.environ = append(n.environ, "RUNS="+filepath.Join(dir, "runs"), "HOLD="+filepath.Join(dir, "hold"), client.SocketEnv+"="+s.socket)
	n.Cleanup(func() {
		s.kill(syscall.SIGKILL)
		canary.AssertAbsent(n, "the service's log", s.log.String())
	})
	s.start()
	return s
}

// kill ends the service with a signal.
func (s *service) kill(sig syscall.Signal) {
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	_ = s.cmd.Process.Signal(sig)
	_ = s.cmd.Wait()
}

// start starts the service's process and waits until it responds.
func (s *service) start() {
	s.Helper()
	s.cmd = exec.Command(s.path("service"))
	s.cmd.Env = append(s.environ, "STATE="+s.store.Dir, "SOCKET="+s.socket, "COUNTS="+s.counts)
	s.cmd.Stderr = &s.log
	s.requireNoError(s.cmd.Start())
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := (&client.Service{Socket: s.socket}).Lookup(s.Context(), client.Selector{}, client.LookupRequest{Image: "nothing.example/x"}); err == nil {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("the service does not respond: %s", s.log.String())
		}
	}
}

func (s *service) path(name string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(s.socket)), name)
}

// runs returns the number of plugin runs by the service and by dispatchers.
func (s *service) runs() (byService, byDispatchers int) {
	data, _ := os.ReadFile(s.path("runs"))
	return strings.Count(string(data), "service\n"), strings.Count(string(data), "dispatcher\n")
}

func (s *service) awaitRun(n int) {
	s.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if by, _ := s.runs(); by >= n {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("the service did not run the plugin: %s", s.log.String())
		}
	}
}

// output returns the dispatcher's standard output for a request.
func (n *testNode) output(name string, req *plugin.Request, environ ...string) (stdout, stderr string) {
	n.Helper()
	c := n.dispatcherCommand(name)
	c.Environ = append(c.Environ, environ...)
	x, err := c.Run(n.Context(), req)
	if err != nil && x.Stderr == "" {
		n.Fatal(err)
	}
	return x.Stdout.Reveal(), x.Stderr
}

// TestServiceParity verifies that a kubelet gets the same response with the service as without.
func TestServiceParity(t *testing.T) {
	n := newNode(t)
	image := newProvider("plugin-a", nil)
	image.MatchImages = []string{"r.example/team", "s.example"}
	other := newProvider("plugin-none", nil)
	other.MatchImages = []string{"n.example"}
	fails := newProvider("plugin-fails", nil)
	fails.MatchImages = []string{"f.example", "s.example"}
	n.activateProviders(image, newProvider("plugin-b", nil), newProvider("plugin-t", tokenAttributes), other, fails)
	s := n.startService()
	token := plugin.NewSecret("e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":["registry"],"x":"`+canary.TokenSecret+`"}`)) + ".x")
	requests := map[string]struct {
		entry string
		req   plugin.Request
	}{
		"two providers":  {entries.DispatcherName, plugin.Request{Image: "r.example/team/app"}},
		"one provider":   {entries.DispatcherName, plugin.Request{Image: "r.example/app"}},
		"no credentials": {entries.DispatcherName, plugin.Request{Image: "n.example/app"}},
		"no provider":    {entries.DispatcherName, plugin.Request{Image: "x.example/app"}},
		"one failed":     {entries.DispatcherName, plugin.Request{Image: "s.example/app"}},
		"all failed":     {entries.DispatcherName, plugin.Request{Image: "f.example/app"}},
		"token":          {entries.DispatcherName + "-2", plugin.Request{Image: "r.example/app", ServiceAccountToken: token, ServiceAccountAnnotations: map[string]string{"example.com/role": "r"}}},
		"wrong token":    {entries.DispatcherName + "-2", plugin.Request{Image: "r.example/app", ServiceAccountToken: plugin.NewSecret(canary.TokenSecret)}},
		"invalid image":  {entries.DispatcherName, plugin.Request{Image: "R::"}},
	}
	for name, r := range requests {
		t.Run(name, func(t *testing.T) {
			out, errOut := n.output(r.entry, &r.req, client.SocketEnv+"="+client.SocketNone)
			for range 2 { // the second response is cached, so its duration is the remaining time
				gotOut, gotErr := n.output(r.entry, &r.req)
				gotOut = regexp.MustCompile(`"cacheDuration":"5\d\.\d*s"`).ReplaceAllString(gotOut, `"cacheDuration":"1m0s"`)
				gotOut = regexp.MustCompile(`"cacheDuration":"4m5\d\.\d*s"`).ReplaceAllString(gotOut, `"cacheDuration":"5m0s"`)
				if diff := cmp.Diff(out+errOut, gotOut+gotErr); diff != "" {
					t.Errorf("without the service: -, with it: +\n%s", diff)
				}
			}
		})
	}
	by, _ := s.runs()
	if by == 0 {
		t.Error("the service ran no plugin")
	}
}

// TestServiceUsed verifies that the service runs each plugin once for many pulls at the same time, that
// it counts the requests, and that it uses a new generation at once.
func TestServiceUsed(t *testing.T) {
	n := newNode(t)
	n.activateProviders(newProvider("plugin-a", nil))
	s := n.startService()
	n.requireNoError(os.WriteFile(s.path("hold"), nil, 0o600))
	time.AfterFunc(time.Second, func() { os.Remove(s.path("hold")) })
	const pulls = 200
	var wg sync.WaitGroup
	var bad sync.Map
	for i := range pulls {
		wg.Go(func() {
			resp, err := n.dispatcherCommand(entries.DispatcherName).GetCredentials(t.Context(), &plugin.Request{Image: fmt.Sprintf("r.example/team/app%d", i)})
			if responseUsers(resp) == nil || err != nil {
				bad.Store(i, err)
			}
		})
	}
	wg.Wait()
	bad.Range(func(k, v any) bool { t.Errorf("pull %v: %v", k, v); return true })
	by, itself := s.runs()
	if by != 1 {
		t.Errorf("the service ran the plugin %d times", by)
	}
	t.Logf("%d of %d pulls ran the plugin themselves", itself, pulls)
	if itself > pulls/10 { // if the machine is too slow for 50 ms, a dispatcher must not wait
		t.Errorf("%d of %d pulls did not use the service", itself, pulls)
	}
	n.activateProviders(newProvider("plugin-b", nil))
	if resp, err := n.getCredentials(); err != nil || fmt.Sprint(responseUsers(resp)) != "[b2]" {
		t.Errorf("after a new generation: %v, %v", responseUsers(resp), err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		counts := must.Get(runstats.Read(t.Context(), n.counts))(t)
		if counts.Runs[runstats.RunSucceeded]+counts.DroppedBatches == pulls+1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("counted %+v and %d dropped", counts.Runs, counts.DroppedBatches)
		}
	}
}

// TestServiceFails verifies that the dispatcher runs the plugin itself if the service is stopped, killed
// or frozen, before the request or while its plugin runs, and how long that takes.
func TestServiceFails(t *testing.T) {
	for name, tt := range map[string]struct {
		during bool // while the plugin runs
		signal syscall.Signal
		limit  time.Duration
	}{
		"killed before":  {false, syscall.SIGKILL, 5 * time.Second},
		"frozen before":  {false, syscall.SIGSTOP, 5 * time.Second},
		"stopped before": {false, syscall.SIGTERM, 5 * time.Second},
		"killed during":  {true, syscall.SIGKILL, 5 * time.Second},
		"frozen during":  {true, syscall.SIGSTOP, 12 * time.Second},
		"stopped during": {true, syscall.SIGTERM, 12 * time.Second},
		"plugin hangs":   {true, syscall.SIGCONT, 25 * time.Second}, // after a quarter of ServeTimeout
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.activateProviders(newProvider("plugin-a", nil))
			s := n.startService()
			if tt.during {
				n.requireNoError(os.WriteFile(s.path("hold"), nil, 0o600))
				go func() {
					s.awaitRun(1)
					_ = s.cmd.Process.Signal(tt.signal)
				}()
			} else {
				n.requireNoError(s.cmd.Process.Signal(tt.signal))
				time.Sleep(100 * time.Millisecond)
			}
			start := time.Now()
			resp, err := n.getCredentials()
			took := time.Since(start)
			if err != nil || fmt.Sprint(responseUsers(resp)) != "[a1]" || took > tt.limit {
				t.Errorf("%v, %v after %v", responseUsers(resp), err, took)
			}
			if _, itself := s.runs(); itself != 1 {
				t.Errorf("the dispatcher ran the plugin %d times", itself)
			}
			t.Logf("the response took %v", took)
		})
	}
}

// TestServiceRestarts verifies that no pull fails while the service is killed, stopped and started again.
func TestServiceRestarts(t *testing.T) {
	n := newNode(t)
	n.activateProviders(newProvider("plugin-a", nil))
	s := n.startService()
	done := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	pulls := 0
	for range 6 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				resp, err := n.getCredentials()
				mu.Lock()
				if pulls++; err != nil || fmt.Sprint(responseUsers(resp)) != "[a1]" {
					t.Errorf("pull %d: %v, %v", pulls, responseUsers(resp), err)
				}
				mu.Unlock()
			}
		})
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		time.Sleep(300 * time.Millisecond)
		s.kill(sig)
		time.Sleep(100 * time.Millisecond)
		s.start()
	}
	time.Sleep(300 * time.Millisecond)
	close(done)
	wg.Wait()
	if byService, itself := s.runs(); pulls < 50 || byService < 5 || itself == 0 {
		t.Errorf("%d pulls, %d runs by the service, %d by dispatchers", pulls, byService, itself)
	} else {
		t.Logf("%d pulls, %d runs by the service, %d by dispatchers", pulls, byService, itself)
	}
}

// TestServiceBroken verifies that the dispatcher runs the plugin itself if something else is at the
// socket's path.
func TestServiceBroken(t *testing.T) {
	for name, response := range map[string]string{
		"closes":             "",
		"garbage":            "\x00\x01garbage\r\n\r\n",
		"another protocol":   "SSH-2.0-OpenSSH_9.9\r\n",
		"an error":           "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\n{}",
		"no length":          "HTTP/1.1 200 OK\r\n\r\n{}",
		"a huge length":      "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n{}",
		"a short body":       "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
		"not a response":     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"an endless header":  "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20),
		"interim and close":  "HTTP/1.1 102 Processing\r\n\r\n",
		"a secret in errors": "HTTP/1.1 " + canary.PasswordSecret + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.activateProviders(newProvider("plugin-a", nil))
			socket := filepath.Join(t.TempDir(), "s")
			serveText(t, socket, response)
			n.environ = append(n.environ, client.SocketEnv+"="+socket)
			stdout, stderr := n.output(entries.DispatcherName, &plugin.Request{Image: "r.example/app"})
			if !strings.Contains(stdout, `"username":"a1"`) || stderr != "" {
				t.Errorf("stdout %q, stderr %q", stdout, stderr)
			}
		})
	}
}

// TestServiceOwner verifies that the dispatcher does not use another user's socket.
func TestServiceOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run a service as another user")
	}
	n := newNode(t)
	n.activateProviders(newProvider("plugin-a", nil))
	dir := must.Get(os.MkdirTemp("/tmp", "regcred-owner"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	n.requireNoError(os.Chown(dir, 4001, 4001))
	socket := filepath.Join(dir, "s")
	program := filepath.Join(dir, "listener")
	n.requireNoError(os.WriteFile(program, must.Get(os.ReadFile(n.self))(t), 0o755))
	cmd := exec.CommandContext(t.Context(), program, socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4001, Gid: 4001}}
	out := must.Get(cmd.StdoutPipe())(t)
	n.requireNoError(cmd.Start())
	lines := bufio.NewReader(out)
	if line := must.Get(lines.ReadString('\n'))(t); line != "ready\n" {
		t.Fatal(line)
	}
	n.environ = append(n.environ, client.SocketEnv+"="+socket)
	if resp, err := n.getCredentials(); err != nil || fmt.Sprint(responseUsers(resp)) != "[a1]" {
		t.Errorf("%v, %v", responseUsers(resp), err)
	}
	if line := must.Get(lines.ReadString('\n'))(t); line != "0 bytes: \n" {
		t.Errorf("the other user's program received %q", line)
	}
	n.requireNoError(cmd.Wait())
}

// serveText responds with text to each connection.
func serveText(t *testing.T, socket, text string) {
	t.Helper()
	l := must.Get(net.Listen("unix", socket))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 1<<20))
				_, _ = io.WriteString(c, text)
			}()
		}
	}()
}
