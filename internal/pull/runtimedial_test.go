// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcri"
)

func TestDialRuntimeName(t *testing.T) {
	if got, want := dialServer(t, &testcri.Server{}, RuntimeOptions{}).String(), "testcri 1.0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	proxy := &testcri.Server{OnVersion: func(context.Context) (*runtimeapi.VersionResponse, error) {
		return nil, status.Error(codes.Unimplemented, "unknown service runtime.v1.RuntimeService")
	}}
	if got, want := dialServer(t, proxy, RuntimeOptions{}).String(), "an image service"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDialRuntimeTooEarly verifies that DialRuntime retries until containerd is ready,
// because containerd opens its socket earlier.
func TestDialRuntimeTooEarly(t *testing.T) {
	asked := 0
	s := &testcri.Server{OnVersion: func(context.Context) (*runtimeapi.VersionResponse, error) {
		if asked++; asked <= 2 {
			return nil, status.Error(codes.Unknown, "server is not initialized yet")
		}
		return &runtimeapi.VersionResponse{RuntimeName: "late"}, nil
	}}
	if got := dialServer(t, s, RuntimeOptions{}).String(); got != "late" || asked != 3 {
		t.Errorf("got %q after %d questions, want late after 3", got, asked)
	}
}

func TestDialRuntimeFails(t *testing.T) {
	dir, err := os.MkdirTemp("", "cri") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct{ name, endpoint, want string }{
		{"missing", "unix://" + dir + "/none.sock", "none.sock: no such file or directory: is the runtime running, and is this its socket?"},
		{"a file", file, "is not a socket"},
		{"a directory", "unix://" + dir, "is not a socket"},
		{"nobody listens", "unix://" + startListener(t, filepath.Join(dir, "dead.sock"), nil), "nothing is listening on the socket: the runtime has exited"},
		{"hangs", "unix://" + startListener(t, filepath.Join(dir, "deaf.sock"), func(net.Conn) {}), "no response within 50ms: the server hangs or is not a CRI runtime"},
		{"hangs up", "unix://" + startListener(t, filepath.Join(dir, "hangup.sock"), func(c net.Conn) { c.Close() }), "the server is not a CRI runtime or has just exited: "},
		{"speaks HTTP", "unix://" + serveHTTP(t, filepath.Join(dir, "http.sock")), "the server is not a CRI runtime or has just exited: "},
		{"old CRI", "unix://" + startOldRuntime(t), "the server does not support CRI v1"},
		{"TCP", "tcp://127.0.0.1:1", `runtime endpoint "tcp://127.0.0.1:1": must be a socket path in the form unix:///PATH`},
		{"relative", "run/cri.sock", `"run/cri.sock": must be a socket`},
		{"two slashes", "unix://run/cri.sock", "use unix:///run/cri.sock, with three slashes"},
		{"no slashes", "unix:cri.sock", "must be a socket path"},
		{"pipe", "npipe:////./pipe/containerd-containerd", "not named pipes"},
		{"empty", "", "must be a socket path"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opts := RuntimeOptions{}
			if tt.name == "hangs" {
				opts.Timeout = 50 * time.Millisecond
			}
			_, err := DialRuntime(t.Context(), tt.endpoint, opts)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// TestDialRuntimeDeaf verifies that DialRuntime reports its own timeout for a socket that
// never responds, because the error is clearer than gRPC's. gRPC's timeout is derived from
// DialRuntime's, so a short timeout is enough for this test.
func TestDialRuntimeDeaf(t *testing.T) {
	t.Parallel()
	if got := (RuntimeOptions{}).firstCallTimeout(); got != 10*time.Second {
		t.Errorf("by default it waits for %s, want 10s", got)
	}
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var held []net.Conn // prevents the garbage collector from closing them
	socket := startListener(t, filepath.Join(dir, "deaf.sock"), func(c net.Conn) { held = append(held, c) })
	_, err = DialRuntime(t.Context(), socket, RuntimeOptions{Timeout: time.Second})
	if want := "no response within 1s: the server hangs or is not a CRI runtime"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
}

func TestDialRuntimeDenied(t *testing.T) {
	err := explainDialError(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)})
	if want := "permission denied: only root and the socket's group can use the socket"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
}

// startListener creates a socket and calls serve with each connection. If serve is nil, it closes
// the listener but keeps the socket file.
func startListener(t *testing.T, path string, serve func(net.Conn)) string {
	t.Helper()
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	if serve == nil {
		l.SetUnlinkOnClose(false)
		l.Close()
		return path
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
		}
	}()
	return path
}

func serveHTTP(t *testing.T, path string) string {
	t.Helper()
	l := must.Get(net.Listen("unix", path))(t)
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.NotFoundHandler()}}
	s.Start()
	t.Cleanup(s.Close)
	return path
}

// startOldRuntime starts a runtime that does not support CRI v1.
func startOldRuntime(t *testing.T) string {
	t.Helper()
	unknown := status.Error(codes.Unimplemented, "unknown service runtime.v1")
	s := &testcri.Server{
		OnVersion:     func(context.Context) (*runtimeapi.VersionResponse, error) { return nil, unknown },
		OnImageFsInfo: func(context.Context) error { return unknown },
	}
	s.Start(t)
	return s.Socket
}

func TestSocketPath(t *testing.T) {
	for _, endpoint := range []string{"unix:///run/x.sock", "unix:/run/x.sock", "/run/x.sock"} {
		if got, err := SocketPath(endpoint); err != nil || got != "/run/x.sock" {
			t.Errorf("%s: %q, %v", endpoint, got, err)
		}
	}
	if runtime.GOOS == "windows" {
		t.Skip("a path with a drive is not used")
	}
	if got, err := SocketPath("/run/a:b.sock"); err != nil || got != "/run/a:b.sock" {
		t.Errorf("got %q, %v", got, err)
	}
}
