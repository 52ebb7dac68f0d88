// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"errors"
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

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testcri"
)

const anImage = "registry.example/team/app:v1"

func dial(t *testing.T, s *testcri.Server, opts RuntimeOptions) *Runtime {
	t.Helper()
	s.Start(t)
	r, err := DialRuntime(t.Context(), "unix://"+s.Socket, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// given is a lookup that has the credentials already.
func given(creds ...regcred.Credential) func(context.Context) ([]regcred.Credential, error) {
	return func(context.Context) ([]regcred.Credential, error) { return creds, nil }
}

// onlyDev is a registry that admits the user of dev alone.
func onlyDev(_ context.Context, req *runtimeapi.PullImageRequest) (string, error) {
	if req.Auth.GetUsername() != dev.Username {
		return "", testcri.Unauthorized(req)
	}
	return "sha256:abc", nil
}

func TestRuntimeTriesInOrder(t *testing.T) {
	s := &testcri.Server{OnPull: onlyDev}
	var refused []string
	r := dial(t, s, RuntimeOptions{Refused: func(c regcred.Credential) { refused = append(refused, c.Username) }})
	res, err := r.Pull(t.Context(), anImage, PullAlways, given(good, dev, good))
	if err != nil {
		t.Fatal(err)
	}
	if res.Credential.Username != dev.Username || res.Ref != "sha256:abc" || res.Size != 1<<20 || res.Present || len(res.Failed) != 1 || res.Failed[0].Status != 401 {
		t.Errorf("got %+v, want a pull with the second credential after a 401", res)
	}
	if diff := cmp.Diff([]string{good.Username}, refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	pulls := s.Pulls()
	if len(pulls) != 2 {
		t.Fatalf("%d pulls, want 2: the third credential is not needed", len(pulls))
	}
	auth := pulls[1].Auth
	if auth.Username != dev.Username || auth.Password != string(dev.Password) || auth.Auth != "" || auth.IdentityToken != "" || auth.RegistryToken != "" {
		t.Error("want user name and password, and nothing else")
	}
}

func TestRuntimeAnonymousOnlyWithoutCredentials(t *testing.T) {
	s := &testcri.Server{OnPull: onlyDev}
	r := dial(t, s, RuntimeOptions{})
	_, err := r.Pull(t.Context(), anImage, PullAlways, given(good, good))
	var failed *Error
	if !errors.As(err, &failed) || len(failed.Tries) != 2 || failed.Untried != 0 {
		t.Errorf("got %v, want an *Error of two tries", err)
	}
	if _, err := r.Pull(t.Context(), anImage, PullAlways, given()); !errors.As(err, &failed) || len(failed.Tries) != 1 || failed.Tries[0].Credential != nil {
		t.Errorf("got %v, want one anonymous try", err)
	}
	for i, want := range []bool{true, true, false} {
		if got := s.Pulls()[i].Auth != nil; got != want {
			t.Errorf("pull %d with a credential: %t, want %t", i, got, want)
		}
	}
}

// TestRuntimeImageSpec checks the names that go to the runtime: as the kubelet
// writes them, and the registry to which containerd pins a credential.
func TestRuntimeImageSpec(t *testing.T) {
	for _, tt := range []struct{ image, sent, server string }{
		{"nginx", "nginx:latest", "https://registry-1.docker.io"},
		{"nginx:1.27", "nginx:1.27", "https://registry-1.docker.io"},
		{"index.docker.io/team/app:v1", "index.docker.io/team/app:v1", "https://registry-1.docker.io"},
		{"registry.example/app", "registry.example/app:latest", "https://registry.example"},
		{"localhost:5000/app:v1", "localhost:5000/app:v1", "https://localhost:5000"},
		{"[::1]:5000/app:v1", "[::1]:5000/app:v1", "https://[::1]:5000"},
		{"registry.example/app@sha256:" + strings.Repeat("a", 64), "registry.example/app@sha256:" + strings.Repeat("a", 64), "https://registry.example"},
	} {
		s := &testcri.Server{}
		r := dial(t, s, RuntimeOptions{})
		if _, err := r.Pull(t.Context(), tt.image, PullAlways, given(good)); err != nil {
			t.Errorf("%s: %v", tt.image, err)
			continue
		}
		got := s.Pulls()[0]
		if got.Image.Image != tt.sent || got.Image.UserSpecifiedImage != tt.image || got.Auth.ServerAddress != tt.server {
			t.Errorf("%s: sent %q, user's %q, for %q; want %q for %q", tt.image, got.Image.Image, got.Image.UserSpecifiedImage, got.Auth.ServerAddress, tt.sent, tt.server)
		}
	}
}

func TestRuntimeBadReference(t *testing.T) {
	s := &testcri.Server{}
	r := dial(t, s, RuntimeOptions{})
	for _, image := range []string{"", "registry.example/UPPER:v1", "a b", "registry.example/app:v1\n"} {
		_, err := r.Pull(t.Context(), image, PullAlways, given())
		if err == nil || !strings.Contains(err.Error(), "not an image reference") {
			t.Errorf("%q: got %v", image, err)
		}
	}
	if n := len(s.Pulls()); n != 0 {
		t.Errorf("%d pulls, want none", n)
	}
}

func TestRuntimePolicy(t *testing.T) {
	for _, tt := range []struct {
		policy        Policy
		present       bool
		pulls, lookup int
		err           error
	}{
		{PullIfNotPresent, false, 1, 1, nil},
		{PullIfNotPresent, true, 0, 0, nil},
		{PullAlways, false, 1, 1, nil},
		{PullAlways, true, 1, 1, nil},
		{PullNever, false, 0, 0, ErrNotPresent},
		{PullNever, true, 0, 0, nil},
	} {
		s := &testcri.Server{}
		if tt.present {
			s.OnStatus = func(context.Context, *runtimeapi.ImageSpec) (*runtimeapi.Image, error) {
				return &runtimeapi.Image{Id: "sha256:there", Size: 42}, nil
			}
		}
		r := dial(t, s, RuntimeOptions{})
		lookups := 0
		res, err := r.Pull(t.Context(), anImage, tt.policy, func(context.Context) ([]regcred.Credential, error) {
			lookups++
			return nil, nil
		})
		if !errors.Is(err, tt.err) || len(s.Pulls()) != tt.pulls || lookups != tt.lookup {
			t.Errorf("%s, present %t: %v, %d pulls, %d lookups; want %v, %d, %d", tt.policy, tt.present, err, len(s.Pulls()), lookups, tt.err, tt.pulls, tt.lookup)
		}
		if err == nil && (res.Present != (tt.pulls == 0) || res.Present && (res.Ref != "sha256:there" || res.Size != 42)) {
			t.Errorf("%s, present %t: got %+v", tt.policy, tt.present, res)
		}
	}
}

func TestRuntimeLookupFails(t *testing.T) {
	s := &testcri.Server{}
	r := dial(t, s, RuntimeOptions{})
	failure := errors.New("no route to metadata server")
	_, err := r.Pull(t.Context(), anImage, PullIfNotPresent, func(context.Context) ([]regcred.Credential, error) { return nil, failure })
	if err != failure || len(s.Pulls()) != 0 {
		t.Errorf("got %v and %d pulls, want the lookup's own error and none", err, len(s.Pulls()))
	}
}

// TestRuntimeClassifies has texts of containerd 1.6, 1.7 and 2, and of CRI-O.
func TestRuntimeClassifies(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		code       codes.Code
		status     int
		kind       string
		refused    bool
	}{
		{"containerd 1.6, Basic", `failed to resolve reference "registry.example/a:v1": pulling from host registry.example failed with status code [manifests v1]: 401 Unauthorized`, codes.Unknown, 401, "", true},
		{"containerd 1.6, Bearer", `failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized`, codes.Unknown, 401, "", true},
		{"containerd 1.7", `failed to authorize: failed to fetch oauth token: unexpected status from GET request to https://auth.example/token?scope=x: 401 Unauthorized`, codes.Unknown, 401, "", true},
		{"containerd 2", `unexpected status from HEAD request to https://registry.example/v2/team/app/manifests/v1: 401 Unauthorized`, codes.Unknown, 401, "", true},
		{"containerd, scope", `pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`, codes.Unknown, 401, "", true},
		{"containerd, a mirror refuses", `unexpected status from HEAD request to https://mirror.example/v2/team/app/manifests/v1: 401 Unauthorized`, codes.Unknown, 0, "", false},
		{"containerd 1.6, a mirror refuses", `pulling from host mirror.example:5000 failed with status code [manifests v1]: 401 Unauthorized`, codes.Unknown, 0, "", false},
		{"containerd, not sent", `pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials`, codes.Unknown, 0, "", false},
		{"containerd, forbidden", `pulling from host registry.example failed with status code [manifests v1]: 403 Forbidden`, codes.Unknown, 403, "", false},
		{"containerd, not found", `failed to resolve reference "registry.example/a:v1": registry.example/a:v1: not found`, codes.NotFound, 404, "", false},
		{"containerd, limited", `unexpected status code http://registry.example/v2/x: 429 Too Many Requests - Server message: toomanyrequests: x`, codes.Unknown, 429, "", false},
		{"containerd, broken", `failed with status code [manifests v1]: 500 Internal Server Error`, codes.Unknown, 500, "", false},
		{"CRI-O", `initializing source docker://registry.example/a:v1: reading manifest v1 in registry.example/a: unauthorized: authentication required`, codes.Unknown, 401, "", true},
		{"CRI-O, password", `unable to retrieve auth token: invalid username/password: unauthorized: incorrect username or password`, codes.Unknown, 401, "", true},
		{"CRI-O, denied", `requested access to the resource is denied: denied: no`, codes.Unknown, 403, "", false},
		{"CRI-O, unknown", `reading manifest v1 in registry.example/a: manifest unknown`, codes.Unknown, 404, "", false},
		{"CRI-O, status", `fetching target platform image: invalid status code from registry 404 (Not Found)`, codes.Unknown, 404, "", false},
		{"unavailable", `RegistryUnavailable: pinging container registry registry.example: dial tcp: connection refused`, codes.Unavailable, 0, "RegistryUnavailable", false},
		{"signature", `SignatureValidationFailed: Source image rejected`, codes.Unknown, 0, "SignatureValidationFailed", false},
		{"a name like a status", `failed to pull "registry.example/401/unauthorized:denied": dial tcp: connection refused`, codes.Unknown, 0, "", false},
		{"a number like a status", `read 401 bytes, want 512 (Range)`, codes.Unknown, 0, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &testcri.Server{OnPull: func(context.Context, *runtimeapi.PullImageRequest) (string, error) {
				return "", status.Error(tt.code, tt.text)
			}}
			refused := false
			r := dial(t, s, RuntimeOptions{Refused: func(regcred.Credential) { refused = true }})
			_, err := r.Pull(t.Context(), anImage, PullAlways, given(good))
			var failed *Error
			if !errors.As(err, &failed) || len(s.Pulls()) != 1 {
				t.Fatalf("got %v after %d pulls, want an *Error after one", err, len(s.Pulls()))
			}
			got := failed.Tries[0]
			if got.Status != tt.status || got.Code != tt.kind || refused != tt.refused {
				t.Errorf("status %d, code %q, refused %t; want %d, %q, %t", got.Status, got.Code, refused, tt.status, tt.kind, tt.refused)
			}
			if strings.Contains(err.Error(), "rpc error") || strings.Contains(err.Error(), "scope=x") {
				t.Errorf("error %q", err)
			}
		})
	}
}

func TestRuntimeErrorHoldsNoSecret(t *testing.T) {
	long := strings.Repeat("x", 1985)
	s := &testcri.Server{OnPull: func(_ context.Context, req *runtimeapi.PullImageRequest) (string, error) {
		// Half of the password would remain if the text was cut first.
		return "", status.Error(codes.Unknown, "login\nas "+req.Auth.Password+" at https://blobs.example/x?sig="+canary.Token+" \x1b[2J"+long+req.Auth.Password)
	}}
	r := dial(t, s, RuntimeOptions{})
	for i, n := range []int{1900, 1905, 1910, 1985} {
		long = strings.Repeat("x", n)
		_, err := r.Pull(t.Context(), anImage, PullAlways, given(good))
		canary.Check(t, "error", err.Error())
		if i == 0 && (!strings.Contains(err.Error(), "login as [redacted] at https://blobs.example/x?[redacted]") || strings.ContainsAny(err.Error(), "\n\x1b")) {
			t.Errorf("error %q", err)
		}
	}
}

func TestRuntimeDiskFull(t *testing.T) {
	s := &testcri.Server{OnPull: func(context.Context, *runtimeapi.PullImageRequest) (string, error) {
		return "", status.Error(codes.Unknown, "failed to extract layer: write /var/lib/containerd/x: no space left on device")
	}}
	r := dial(t, s, RuntimeOptions{})
	_, err := r.Pull(t.Context(), anImage, PullAlways, given(good, dev))
	var failed *Error
	if !errors.As(err, &failed) || failed.Untried != 1 || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room") {
		t.Errorf("got %v, want ENOSPC, what to do, and one credential not tried", err)
	}
}

func TestRuntimeNoUserName(t *testing.T) {
	s := &testcri.Server{}
	r := dial(t, s, RuntimeOptions{})
	_, err := r.Pull(t.Context(), anImage, PullAlways, given(regcred.Credential{Password: canary.Password}))
	if err == nil || !strings.Contains(err.Error(), "no user name") || len(s.Pulls()) != 0 {
		t.Errorf("got %v and %d pulls, want no pull", err, len(s.Pulls()))
	}
}

// TestRuntimeRestart ends the runtime in the middle of a pull.
func TestRuntimeRestart(t *testing.T) {
	began := make(chan bool, 9)
	var notReady, attempts int
	s := &testcri.Server{}
	s.OnPull = func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) {
		if attempts++; attempts == 1 {
			began <- true
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "sha256:abc", nil
	}
	s.OnStatus = func(context.Context, *runtimeapi.ImageSpec) (*runtimeapi.Image, error) {
		if notReady++; notReady <= 2 { // as containerd just after its start
			return nil, status.Error(codes.Unknown, "server is not initialized yet")
		}
		return nil, nil
	}
	r := dial(t, s, RuntimeOptions{})
	go func() {
		<-began
		s.Stop()
		s.Start(t)
	}()
	res, err := r.Pull(t.Context(), anImage, PullAlways, given(good))
	if err != nil || res.Ref != "sha256:abc" || len(res.Failed) != 0 {
		t.Errorf("got %+v, %v; want the pull, repeated", res, err)
	}
	if attempts != 2 || notReady < 3 {
		t.Errorf("%d pulls and %d questions whether it is ready, want 2 and 3 or more", attempts, notReady)
	}
}

func TestRuntimeGone(t *testing.T) {
	s := &testcri.Server{}
	s.OnPull = func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) {
		go s.Stop()
		<-ctx.Done()
		return "", ctx.Err()
	}
	r := dial(t, s, RuntimeOptions{Return: 100 * time.Millisecond})
	_, err := r.Pull(t.Context(), anImage, PullAlways, given(good, dev))
	var failed *Error
	if !errors.As(err, &failed) || !errors.Is(err, ErrRuntimeGone) || failed.Untried != 1 || !strings.Contains(err.Error(), "did not come back within 100ms") {
		t.Errorf("got %v, want ErrRuntimeGone and one credential not tried", err)
	}
	// Nor is the next image asked for in vain.
	if _, err := r.Pull(t.Context(), anImage, PullIfNotPresent, given()); !errors.Is(err, ErrRuntimeGone) {
		t.Errorf("got %v, want ErrRuntimeGone", err)
	}
}

// TestRuntimeUnavailableTwice has a runtime that says so itself.
func TestRuntimeUnavailableTwice(t *testing.T) {
	s := &testcri.Server{OnPull: func(context.Context, *runtimeapi.PullImageRequest) (string, error) {
		return "", status.Error(codes.Unavailable, "try later")
	}}
	r := dial(t, s, RuntimeOptions{})
	if _, err := r.Pull(t.Context(), anImage, PullAlways, given(good)); err == nil || len(s.Pulls()) != 2 {
		t.Errorf("got %v after %d pulls, want an error after 2", err, len(s.Pulls()))
	}
}

func TestRuntimeHangs(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	s := &testcri.Server{
		OnStatus: func(ctx context.Context, _ *runtimeapi.ImageSpec) (*runtimeapi.Image, error) { return nil, hang(ctx) },
		OnPull:   func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) { return "", hang(ctx) },
	}
	r := dial(t, s, RuntimeOptions{})
	r.opts.Timeout = 20 * time.Millisecond // not for the dialing, which may take longer
	_, err := r.Pull(t.Context(), anImage, PullIfNotPresent, given())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("status: %v, want a deadline", err)
	}
	cause := errors.New("not pulled within 20ms")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, cause)
	defer cancel()
	_, err = r.Pull(ctx, anImage, PullAlways, given(good, dev))
	var failed *Error
	if !errors.As(err, &failed) || !errors.Is(err, context.DeadlineExceeded) || failed.Untried != 1 || !strings.Contains(err.Error(), cause.Error()) {
		t.Errorf("pull: %v, want the deadline and its cause, one credential not tried", err)
	}
}

func TestRuntimeCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan bool, 1)
	s := &testcri.Server{OnPull: func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) {
		cancel()
		<-ctx.Done()
		told <- true
		return "", ctx.Err()
	}}
	r := dial(t, s, RuntimeOptions{})
	_, err := r.Pull(ctx, anImage, PullAlways, given(good, dev))
	if !errors.Is(err, context.Canceled) || len(s.Pulls()) != 1 {
		t.Errorf("got %v after %d pulls, want context.Canceled after one", err, len(s.Pulls()))
	}
	<-told // the runtime gives up its work too
}

// TestRuntimeLargeMessage goes past gRPC's own limit, and past the kubelet's.
func TestRuntimeLargeMessage(t *testing.T) {
	size := 5 << 20
	s := &testcri.Server{OnStatus: func(context.Context, *runtimeapi.ImageSpec) (*runtimeapi.Image, error) {
		return &runtimeapi.Image{Id: strings.Repeat("x", size)}, nil
	}}
	r := dial(t, s, RuntimeOptions{})
	if res, err := r.Pull(t.Context(), anImage, PullIfNotPresent, given()); err != nil || len(res.Ref) != size {
		t.Errorf("5 MiB: %v", err)
	}
	size = 17 << 20
	_, err := r.Pull(t.Context(), anImage, PullIfNotPresent, given())
	if err == nil || !strings.Contains(err.Error(), "its answer is larger than 16 MiB, which a kubelet would not take either") {
		t.Errorf("17 MiB: got %v", err)
	}
}

func TestDialRuntimeName(t *testing.T) {
	if got, want := dial(t, &testcri.Server{}, RuntimeOptions{}).String(), "testcri 1.0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	proxy := &testcri.Server{OnVersion: func(context.Context) (*runtimeapi.VersionResponse, error) {
		return nil, status.Error(codes.Unimplemented, "unknown service runtime.v1.RuntimeService")
	}}
	if got, want := dial(t, proxy, RuntimeOptions{}).String(), "an image service"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDialRuntimeFails(t *testing.T) {
	dir, err := os.MkdirTemp("", "cri") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, endpoint, want string }{
		{"missing", "unix://" + dir + "/none.sock", "none.sock: no such file or directory: is the runtime running, and is this its socket?"},
		{"a file", file, "is not a socket"},
		{"a directory", "unix://" + dir, "is not a socket"},
		{"nobody listens", "unix://" + listen(t, filepath.Join(dir, "dead.sock"), nil), "nothing listens on it: the runtime has ended"},
		{"hangs", "unix://" + listen(t, filepath.Join(dir, "deaf.sock"), func(net.Conn) {}), "no answer within 50ms: it hangs, or is something else"},
		{"hangs up", "unix://" + listen(t, filepath.Join(dir, "hangup.sock"), func(c net.Conn) { c.Close() }), "for its version: it is something else, or has just ended: "},
		{"speaks HTTP", "unix://" + serveHTTP(t, filepath.Join(dir, "http.sock")), "for its version: it is something else, or has just ended: "},
		{"old CRI", "unix://" + oldCRI(t), "it does not speak CRI v1"},
		{"TCP", "tcp://127.0.0.1:1", `runtime endpoint "tcp://127.0.0.1:1": want unix:///path of a socket`},
		{"relative", "run/cri.sock", `"run/cri.sock": want unix:///path of a socket`},
		{"two slashes", "unix://run/cri.sock", "want unix:///run/cri.sock, with three slashes"},
		{"no slashes", "unix:cri.sock", "want unix:///path of a socket"},
		{"pipe", "npipe:////./pipe/containerd-containerd", "named pipes are not supported"},
		{"empty", "", "want unix:///path of a socket"},
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

func TestDialRuntimeDenied(t *testing.T) {
	err := explainDenied(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)})
	if want := "permission denied: it is for root, or a group, alone"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
}

// listen makes a socket that serve gets the connections of; with nil, one
// that nobody listens on any more.
func listen(t *testing.T, path string, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
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
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.NotFoundHandler()}}
	s.Start()
	t.Cleanup(s.Close)
	return path
}

// oldCRI is a runtime that knows neither service, as one that speaks
// v1alpha2 alone.
func oldCRI(t *testing.T) string {
	t.Helper()
	unknown := status.Error(codes.Unimplemented, "unknown service runtime.v1")
	s := &testcri.Server{
		OnVersion: func(context.Context) (*runtimeapi.VersionResponse, error) { return nil, unknown },
		OnInfo:    func(context.Context) error { return unknown },
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
		t.Skip("a path with a drive is not asked for")
	}
	if got, err := SocketPath("/run/a:b.sock"); err != nil || got != "/run/a:b.sock" {
		t.Errorf("got %q, %v", got, err)
	}
}
