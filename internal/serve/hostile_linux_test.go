// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/serve/client"
	"github.com/regcred/regcred/internal/testenv"
)

// runClient sends one request to the socket in its arguments and prints the status and the body.
func runClient() int {
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", os.Args[1])
	}}}
	resp, err := c.Post("http://localhost"+os.Args[2], "application/json", strings.NewReader(os.Args[3]))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("%d %s", resp.StatusCode, body)
	return 0
}

// runAs runs a client as another user.
func (s *testService) runAs(uid, gid uint32, groups []uint32, path, body string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(filepath.Dir(filepath.Dir(s.socket)), "client"), s.socket, path, body)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid, Groups: groups}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s (%v)", out, err)
	}
	return string(out)
}

// TestUsers verifies which users may request credentials, and that only root may send a token.
func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run clients as other users")
	}
	s := newTestService(t, "a=r.example")
	// The test binary and the socket must be reachable for all users.
	base := must.Get(os.MkdirTemp("/tmp", "regcred-serve-test"))(t)
	t.Cleanup(func() { os.RemoveAll(base) })
	must.Do(t, os.Chmod(base, 0o755))
	s.socket = filepath.Join(base, "run", "regcred.sock")
	s.Allow = AllowList{UIDs: []uint32{2001}, GIDs: []uint32{3001}}
	s.start()
	must.Do(t, os.WriteFile(filepath.Join(base, "client"), must.Get(os.ReadFile(must.Get(os.Executable())(t)))(t), 0o755))
	plain, withToken := fmt.Sprintf(requestV1, "r.example/app"), strings.Replace(fmt.Sprintf(requestV1, "r.example/app"), "}", `,"serviceAccountToken":"`+canary.TokenSecret+`"}`, 1)
	for _, tt := range []struct {
		name       string
		uid, gid   uint32
		groups     []uint32
		path, body string
		want       string
	}{
		{"root", 0, 0, nil, client.PathCredentials, plain, "200 "},
		{"allowed user", 2001, 2001, nil, client.PathCredentials, plain, "200 "},
		{"allowed group", 2002, 3001, nil, client.PathCredentials, plain, "200 "},
		{"allowed supplementary group", 2002, 2002, []uint32{5, 3001}, client.PathCredentials, plain, "200 "},
		{"another user", 2002, 2002, []uint32{5}, client.PathCredentials, plain, "403 "},
		{"another user, health", 2002, 2002, nil, "/healthz", plain, "403 "},
		{"allowed user with a token", 2001, 2001, nil, client.PathCredentials, withToken, "403 "},
		{"allowed user with a token", 2001, 2001, nil, client.PathLookup, `{"image":"r.example/app","serviceAccountToken":"x"}`, "403 "},
		{"allowed user with annotations", 2001, 2001, nil, client.PathLookup, `{"image":"r.example/app","serviceAccountAnnotations":{"a":"b"}}`, "403 "},
		{"root with a token", 0, 0, nil, client.PathCredentials, withToken, "200 "},
	} {
		got := s.runAs(tt.uid, tt.gid, tt.groups, tt.path, tt.body)
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if strings.HasPrefix(got, "403") && strings.Contains(got, canary.PasswordSecret) {
			t.Errorf("%s: it got the password", tt.name)
		}
	}
	if _, body := s.do("GET", "/metrics", ""); !strings.Contains(body, `regcred_serve_refused_connections_total{reason="user"} 2`) {
		t.Error("the refused users are not counted")
	}
}

// TestDefaultModes verifies the modes of the socket and its directory.
func TestDefaultModes(t *testing.T) {
	s := startService(t, "a=r.example")
	for path, want := range map[string]os.FileMode{s.socket: 0o600 | os.ModeSocket, filepath.Dir(s.socket): 0o700 | os.ModeDir} {
		if info := must.Get(os.Lstat(path))(t); info.Mode() != want {
			t.Errorf("%s: mode %v, want %v", path, info.Mode(), want)
		}
	}
}

// TestConnectionLimit verifies that connections above the limit are closed at once, and that the
// others are not affected.
func TestConnectionLimit(t *testing.T) {
	s := newTestService(t, "a=r.example")
	s.MaxConnections = 8
	s.start()
	kept := must.Get(net.Dial("unix", s.socket))(t)
	defer kept.Close()
	fmt.Fprint(kept, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	must.Get(http.ReadResponse(bufio.NewReader(kept), nil))(t)
	closed := 0
	for range 300 {
		c := must.Get(net.Dial("unix", s.socket))(t)
		defer c.Close()
		must.Do(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	if closed != 293 || s.connections.count() != 8 {
		t.Errorf("%d of 300 connections were closed, %d are open; want 293 and 8", closed, s.connections.count())
	}
	if _, err := s.client().Lookup(t.Context(), client.Selector{}, client.LookupRequest{Image: "r.example/app"}); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("a client above the limit: %v", err)
	}
	fmt.Fprint(kept, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	must.Get(http.ReadResponse(bufio.NewReader(kept), nil))(t)
}

// TestUserLimit verifies that the limit per user does not affect other users.
func TestUserLimit(t *testing.T) {
	l := limits{total: 10, perUser: 2}
	one, two, root := &peer{uid: 4001}, &peer{uid: 4002}, &peer{uid: 0}
	for i, tt := range []struct {
		p    *peer
		want bool
	}{{one, true}, {one, true}, {one, false}, {two, true}, {root, true}, {root, true}, {root, true}, {two, true}, {two, false}, {root, true}, {root, true}, {root, true}, {root, false}} {
		if got := l.acquire(tt.p); got != tt.want {
			t.Errorf("%d: user %d: %t", i, tt.p.uid, got)
		}
	}
	l.release(one)
	if l.acquire(two) || !l.acquire(one) || l.count() != 10 {
		t.Error("release does not make room for the same user only")
	}
}

// TestHostileClients verifies that slow, endless and broken requests end, and do not delay others.
func TestHostileClients(t *testing.T) {
	s := startService(t, "a=r.example")
	const head = "POST " + client.PathLookup + " HTTP/1.1\r\nHost: x\r\n"
	for what, text := range map[string]string{
		"nothing":            "",
		"half a header":      head,
		"half a body":        head + "Content-Length: 100\r\n\r\n{",
		"an endless header":  head + "X: " + strings.Repeat("x", 1<<20),
		"1 GB":               head + "Content-Length: 1000000000\r\n\r\n" + strings.Repeat(" ", 2<<20),
		"not HTTP":           "\x16\x03\x01\x00\xa5",
		"chunks without end": head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("400\r\n"+strings.Repeat(" ", 1024)+"\r\n", 2048),
	} {
		c := must.Get(net.Dial("unix", s.socket))(t)
		defer c.Close()
		go func() { _, _ = io.WriteString(c, text) }()
		must.Do(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
		got, err := io.ReadAll(c)
		if len(got) > 0 && !strings.HasPrefix(string(got), "HTTP/1.1 4") {
			t.Errorf("%s: %.200q, %v", what, got, err)
		}
		start := time.Now()
		if status, _ := s.do("GET", "/healthz", ""); status != 200 || time.Since(start) > 5*time.Second {
			t.Errorf("%s: another request took %v", what, time.Since(start))
		}
	}
}

// TestNeverReads verifies that a client that does not read its responses does not delay others.
func TestNeverReads(t *testing.T) {
	s := startService(t, "a=r.example")
	c := must.Get(net.Dial("unix", s.socket))(t)
	defer c.Close()
	body := `{"image":"r.example/app"}`
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", client.PathLookup, len(body), body)
	must.Do(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
	for range 10_000 {
		if _, err := io.WriteString(c, request); err != nil {
			break
		}
	}
	start := time.Now()
	must.Get(s.client().Lookup(t.Context(), client.Selector{}, client.LookupRequest{Image: "r.example/app"}))(t)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("another request took %v", took)
	}
}

// TestHostilePlugins verifies that plugins that hang, write without end or leave child processes do not
// delay other providers, and that their runs end.
func TestHostilePlugins(t *testing.T) {
	s := newTestService(t, "a=r.example", "hangs=hangs.test", "floods=floods.test", "forks=forks.test")
	s.PluginTimeout = 4 * time.Second
	s.start()
	s.credentials("r.example/app")
	var wg sync.WaitGroup
	for _, host := range []string{"hangs.test", "floods.test", "forks.test"} {
		for i := range 10 {
			wg.Go(func() {
				if status, body := s.credentials(fmt.Sprintf("%s/app%d", host, i)); status != 502 || strings.Contains(body, canary.PasswordSecret) {
					t.Errorf("%s: status %d, %s", host, status, body)
				}
			})
		}
	}
	slowest := time.Duration(0)
	for range 50 {
		start := time.Now()
		if status, _ := s.credentials("r.example/app"); status != 200 {
			t.Errorf("status %d", status)
		}
		slowest = max(slowest, time.Since(start))
		time.Sleep(10 * time.Millisecond)
	}
	if slowest > 3*time.Second {
		t.Errorf("another provider's response took %v", slowest)
	}
	wg.Wait()
	s.await("all lookups end", func() bool { return s.lookups.count() == 0 })
}

// TestConfigurationSwapped verifies that no request fails while the configuration is replaced, truncated
// and removed all the time, and that the last one is used in the end.
func TestConfigurationSwapped(t *testing.T) {
	s := startService(t, "a=r.example")
	s.credentials("r.example/app")
	valid := must.Get(os.ReadFile(filepath.Join(s.dir, "config.json")))(t)
	for i := range 300 {
		switch i % 4 {
		case 0:
			s.replaceConfig(valid)
		case 1:
			s.replaceConfig(valid[:len(valid)/2])
		case 2:
			must.Do(t, os.Remove(filepath.Join(s.dir, "config.json")))
		case 3:
			s.writeConfig("a=r.example", "b=s.example")
		}
		if status, body := s.credentials("r.example/app"); status != 200 || !strings.Contains(body, canary.PasswordSecret) {
			t.Fatalf("%d: status %d, %s", i, status, body)
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.await("the last configuration is used", func() bool {
		status, body := s.credentials("s.example/app")
		return status == 200 && strings.Contains(body, `"username":"b"`)
	})
	if data := must.Get(os.ReadFile(filepath.Join(s.dir, "runs")))(t); strings.Count(string(data), "a "+client.SocketNone) != 1 {
		t.Errorf("the unchanged provider ran again: %s", data)
	}
}

// TestSocketInUse verifies that a running service keeps its socket, and that the socket of a killed one
// is replaced.
func TestSocketInUse(t *testing.T) {
	s := startService(t, "a=r.example")
	if _, _, err := Listen(s.socket, AllowList{}); err == nil || !strings.Contains(err.Error(), "another process already serves this socket") {
		t.Errorf("while it is in use: %v", err)
	}
	if status, _ := s.do("GET", "/healthz", ""); status != 200 {
		t.Errorf("status %d", status)
	}
	// A listener without a lock, such as systemd's.
	path := filepath.Join(t.TempDir(), "s")
	other := must.Get(net.Listen("unix", path))(t)
	if _, _, err := Listen(path, AllowList{}); err == nil || !strings.Contains(err.Error(), "another process already serves this socket") {
		t.Errorf("while systemd serves it: %v", err)
	}
	other.(*net.UnixListener).SetUnlinkOnClose(false) // as after kill -9
	other.Close()
	l, unlock, err := Listen(path, AllowList{})
	must.Do(t, err)
	unlock()
	l.Close()
}

// TestSocketPath verifies that a service does not use a directory in which other users can replace
// files.
func TestSocketPath(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, errors.Join(os.Mkdir(dir+"/real", 0o700), os.Symlink("real", dir+"/link"), os.Mkdir(dir+"/open", 0o700), os.Chmod(dir+"/open", 0o777), os.WriteFile(dir+"/real/file", []byte("x"), 0o600)))
	for path, want := range map[string]string{
		"/link/s":    "must be a directory, not a symlink",
		"/open/s":    "other users can write to the socket's directory (mode 0777)",
		"/real/file": "a file that is not a socket is in the way",
	} {
		if _, _, err := Listen(dir+path, AllowList{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if data := must.Get(os.ReadFile(dir + "/real/file"))(t); string(data) != "x" {
		t.Error("the file was changed")
	}
	if os.Geteuid() == 0 {
		must.Do(t, errors.Join(os.Mkdir(dir+"/theirs", 0o700), os.Chown(dir+"/theirs", 4001, 4001)))
		if _, _, err := Listen(dir+"/theirs/s", AllowList{}); err == nil || !strings.Contains(err.Error(), "belongs to user 4001") {
			t.Errorf("another user's directory: %v", err)
		}
	}
}

// TestRotation verifies that a password takes effect for each client's next request after a rejected
// one, as without the service.
func TestRotation(t *testing.T) {
	s := startService(t, "a=r.example")
	first := must.Get(s.client().Lookup(t.Context(), client.Selector{}, client.LookupRequest{Server: "https://r.example"}))(t)
	s.setPassword("rotated")
	time.Sleep(freshFor + 100*time.Millisecond)
	// The registry returned 401, so the process asks again.
	second := must.Get(s.client().Lookup(t.Context(), client.Selector{}, client.LookupRequest{Server: "https://r.example"}))(t)
	if first.Credentials[0].Password == "rotated" || second.Credentials[0].Password != "rotated" || s.runs() != 2 {
		t.Errorf("the second request got the old password, %d runs", s.runs())
	}
	// If the plugin fails then, the previous credential is still used.
	must.Do(t, os.Remove(filepath.Join(s.dir, "password")))
	time.Sleep(freshFor + 100*time.Millisecond)
	third := must.Get(s.client().Lookup(t.Context(), client.Selector{}, client.LookupRequest{Server: "https://r.example"}))(t)
	if third.Credentials[0].Password != "rotated" || s.runs() != 3 {
		t.Errorf("with a failing plugin: %d runs", s.runs())
	}
}

// TestMaxStale verifies that a response that is older than MaxStale is replaced, for each kind of request,
// and that it is still returned if the plugin fails.
func TestMaxStale(t *testing.T) {
	const kubelet = `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderRequest","image":"r.example/app"}`
	for name, request := range map[string]struct{ method, path, body string }{
		"credentials": {"POST", client.PathCredentials, kubelet},
		"provider":    {"POST", client.PathCredentials, kubelet},
		"lookup":      {"POST", client.PathLookup, `{"image":"r.example/app"}`},
		"overlaybd":   {"GET", "/auth?remote_url=https://r.example/v2/app/blobs/x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestService(t, "a=r.example")
			s.MaxStale = 2 * freshFor
			s.start()
			var header []string
			if name == "provider" {
				own := s.current.Load().snapshot.config.Providers[0]
				header = []string{client.HeaderProvider, own.Name, client.HeaderProviderHash, client.ProviderHash(&own, filepath.Join(s.dir, "bin"))}
			}
			check := func(step, password string, runs int) {
				t.Helper()
				before := s.runs()
				status, body := s.do(request.method, request.path, request.body, header...)
				if got := s.runs() - before; status != 200 || !strings.Contains(body, `"password":"`+password+`"`) || got != runs {
					t.Errorf("%s: status %d, %d runs, %s; want %s after %d runs", step, status, got, body, password, runs)
				}
			}
			s.setPassword("first")
			check("first", "first", 1)
			s.setPassword("second")
			check("cached", "first", 0)
			time.Sleep(s.MaxStale + 50*time.Millisecond)
			check("older", "second", 1)
			must.Do(t, os.Remove(filepath.Join(s.dir, "password")))
			time.Sleep(s.MaxStale + 50*time.Millisecond)
			check("the plugin fails", "second", 1)
		})
	}
}

// TestAskers verifies which responses a process gets that asks again.
func TestAskers(t *testing.T) {
	var a askers
	start := time.Now()
	one, two := askerKey{0, processID{1, 1}, "r.example"}, askerKey{0, processID{2, 1}, "r.example"}
	a.record(one, start)
	for _, tt := range []struct {
		name   string
		key    askerKey
		after  time.Duration
		window time.Duration
		want   time.Duration // relative to start; -1 means any response
	}{
		{"another process", two, time.Minute, 0, -1},
		{"another registry", askerKey{0, processID{1, 1}, "s.example"}, time.Minute, 0, -1},
		{"at once", one, 100 * time.Millisecond, 0, 100*time.Millisecond - freshFor},
		{"later", one, time.Minute, 0, 0},
		{"within the window", one, 4 * time.Second, 5 * time.Second, 0},
		{"after the window", one, 6 * time.Second, 5 * time.Second, -1},
	} {
		got := a.notBefore(tt.key, start.Add(tt.after), tt.window)
		if want := start.Add(tt.want); tt.want == -1 && !got.IsZero() || tt.want != -1 && !got.Equal(want) {
			t.Errorf("%s: %v", tt.name, got.Sub(start))
		}
	}
	for i := range 3 * maxAskers {
		a.record(askerKey{0, processID{i, 2}, "r.example"}, start)
	}
	if len(a.last) > maxAskers {
		t.Errorf("%d processes are recorded", len(a.last))
	}
}

// TestOverlaybd verifies the response to overlaybd's requests.
func TestOverlaybd(t *testing.T) {
	s := startService(t, "a=r.example:5000,docker.io,[::1]", "fails=f.test", "none=n.test")
	for _, tt := range []struct {
		url    string
		status int
		key    string // of the credential; "" if there is none
	}{
		{"https://r.example:5000/v2/team/app/blobs/sha256:0f", 200, "r.example:5000"},
		{"http://r.example:5000/v2/app/blobs/sha256:0f", 200, "r.example:5000"},
		{"https%3A%2F%2Fr.example%3A5000%2Fv2%2Fapp%2Fblobs%2Fsha256%3A0f", 200, "r.example:5000"},
		{"https://registry-1.docker.io/v2/library/nginx/blobs/sha256:0f", 200, "registry-1.docker.io"},
		{"https://r.example:5000/v2/a/blobs/b/blobs/sha256:0f?x=1&y=2", 200, "r.example:5000"},
		{"https://n.test/v2/app/blobs/sha256:0f", 200, ""},
		{"https://unknown.test/v2/app/blobs/sha256:0f", 200, ""},
		{"https://f.test/v2/app/blobs/sha256:0f", 502, ""},
		{"https://user:pass@r.example:5000/v2/app/blobs/sha256:0f", 400, ""},
		{"https://r.example:5000/app", 400, ""},
		{"https://r.example:5000/v2//blobs/sha256:0f", 400, ""},
		{"ftp://r.example:5000/v2/app/blobs/x", 400, ""},
		{"https://library/v2/app/blobs/x", 400, ""},
		{"", 400, ""},
		{"%zz", 400, ""},
	} {
		status, body := s.do("GET", "/auth?remote_url="+tt.url, "")
		var got overlaybdResponse
		must.Do(t, json.Unmarshal([]byte(body), &got))
		if status != tt.status || got.Success != (status == 200) || got.Data.Auths == nil || got.TraceID == "" || len(got.Data.Auths) != min(len(tt.key), 1) {
			t.Errorf("%s: status %d, %s", tt.url, status, body)
		}
		if tt.key != "" && got.Data.Auths[tt.key] != (overlaybdAuth{"a", canary.PasswordSecret}) {
			t.Errorf("%s: %s", tt.url, body)
		}
	}
	if status, _ := s.do("GET", "/auth", ""); status != 400 {
		t.Errorf("without a parameter: status %d", status)
	}
}

// TestOverlaybdCurl verifies the request as overlaybd sends it with libcurl.
func TestOverlaybdCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		testenv.SkipUnlessAvailable(t, "curl", "curl is not installed")
	}
	s := startService(t, "a=r.example")
	out, err := exec.CommandContext(t.Context(), "curl", "-sS", "--unix-socket", s.socket, "http://localhost/auth?remote_url=https://r.example/v2/team/app/blobs/sha256:0f").CombinedOutput()
	var got overlaybdResponse
	if err != nil || json.Unmarshal(out, &got) != nil || got.Data.Auths["r.example"].Password != canary.PasswordSecret {
		t.Errorf("%s, %v", out, err)
	}
}

func FuzzRemoteURL(f *testing.F) {
	for _, s := range []string{"remote_url=https://r.example/v2/a/blobs/sha256:0", "remote_url=http://[::1]:5000/v2/a/b/blobs/x", "remote_url=https%3A%2F%2Fr.example%2Fv2%2Fa%2Fblobs%2Fx", "remote_url=://", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		host, image, ok := parseRemoteURL(query)
		if ok && (host == "" || strings.ContainsAny(host, "/@ \"") || !strings.Contains(image, "/")) {
			t.Errorf("%q: host %q, image %q", query, host, image)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"image":"r.example/x"}`, `{"server":"https://index.docker.io/v1/"}`, `{"image":1}`, `[]`, `{}{}`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var body client.LookupRequest
		if decodeStrict(data, &body) == nil {
			_, _ = lookupRequests(&body)
		}
	})
}
