// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"errors"
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
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcri"
	"github.com/regcred/regcred/plugin"
)

const anImage = "registry.example/team/app:v1"

func dialServer(t *testing.T, s *testcri.Server, opts RuntimeOptions) *Runtime {
	t.Helper()
	s.Start(t)
	r := must.Get(DialRuntime(t.Context(), "unix://"+s.Socket, opts))(t)
	t.Cleanup(func() { r.Close() })
	return r
}

// fixedLookup returns a lookup function that returns these credentials.
func fixedLookup(creds ...regcred.Credential) func(context.Context) ([]regcred.Credential, error) {
	return func(context.Context) ([]regcred.Credential, error) { return creds, nil }
}

// onlyDev is a registry that accepts only the user "dev".
func onlyDev(_ context.Context, req *runtimeapi.PullImageRequest) (string, error) {
	if req.Auth.GetUsername() != devCredential.Username {
		return "", testcri.UnauthorizedError(req)
	}
	return "sha256:abc", nil
}

func TestRuntimeTriesInOrder(t *testing.T) {
	s := &testcri.Server{OnPullImage: onlyDev}
	var refused []string
	r := dialServer(t, s, RuntimeOptions{OnRejected: func(c regcred.Credential) { refused = append(refused, c.Username) }})
	res := must.Get(r.Pull(t.Context(), anImage, PullAlways, fixedLookup(goodCredential, devCredential, goodCredential)))(t)
	if res.Credential.Username != devCredential.Username || res.ImageRef != "sha256:abc" || res.Size != 1<<20 || res.Present || len(res.Failed) != 1 || res.Failed[0].Status != 401 {
		t.Errorf("got %+v, want a pull with the second credential after a 401", res)
	}
	if diff := cmp.Diff([]string{goodCredential.Username}, refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	pulls := s.PullRequests()
	if len(pulls) != 2 {
		t.Fatalf("%d pulls, want 2: the third credential is not needed", len(pulls))
	}
	auth := pulls[1].Auth
	if auth.Username != devCredential.Username || auth.Password != devCredential.Password.Reveal() || auth.Auth != "" || auth.IdentityToken != "" || auth.RegistryToken != "" {
		t.Error("want user name and password, and nothing else")
	}
}

func TestRuntimeAnonymousOnlyWithoutCredentials(t *testing.T) {
	s := &testcri.Server{OnPullImage: onlyDev}
	r := dialServer(t, s, RuntimeOptions{})
	_, err := r.Pull(t.Context(), anImage, PullAlways, fixedLookup(goodCredential, goodCredential))
	var failed *Error
	if !errors.As(err, &failed) || len(failed.Tries) != 2 || failed.Untried != 0 {
		t.Errorf("got %v, want an *Error of two tries", err)
	}
	if _, err := r.Pull(t.Context(), anImage, PullAlways, fixedLookup()); !errors.As(err, &failed) || len(failed.Tries) != 1 || failed.Tries[0].Credential != nil {
		t.Errorf("got %v, want one anonymous try", err)
	}
	for i, want := range []bool{true, true, false} {
		if got := s.PullRequests()[i].Auth != nil; got != want {
			t.Errorf("pull %d with a credential: %t, want %t", i, got, want)
		}
	}
}

// TestRuntimeImageSpec verifies the image name and the registry that are sent to the runtime.
// The image name must be the one that the kubelet sends.
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
		r := dialServer(t, s, RuntimeOptions{})
		if _, err := r.Pull(t.Context(), tt.image, PullAlways, fixedLookup(goodCredential)); err != nil {
			t.Errorf("%s: %v", tt.image, err)
			continue
		}
		got := s.PullRequests()[0]
		if got.Image.Image != tt.sent || got.Image.UserSpecifiedImage != tt.image || got.Auth.ServerAddress != tt.server {
			t.Errorf("%s: sent %q, user's %q, for %q; want %q for %q", tt.image, got.Image.Image, got.Image.UserSpecifiedImage, got.Auth.ServerAddress, tt.sent, tt.server)
		}
	}
}

func TestRuntimeBadReference(t *testing.T) {
	s := &testcri.Server{}
	r := dialServer(t, s, RuntimeOptions{})
	for _, image := range []string{"", "registry.example/UPPER:v1", "a b", "registry.example/app:v1\n"} {
		_, err := r.Pull(t.Context(), image, PullAlways, fixedLookup())
		if err == nil || !strings.Contains(err.Error(), "not an image reference") {
			t.Errorf("%q: got %v", image, err)
		}
	}
	if n := len(s.PullRequests()); n != 0 {
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
		{PullNever, false, 0, 0, errNotPresent},
		{PullNever, true, 0, 0, nil},
	} {
		s := &testcri.Server{}
		if tt.present {
			s.OnImageStatus = func(context.Context, *runtimeapi.ImageSpec) (*runtimeapi.Image, error) {
				return &runtimeapi.Image{Id: "sha256:there", Size: 42}, nil
			}
		}
		r := dialServer(t, s, RuntimeOptions{})
		lookups := 0
		res, err := r.Pull(t.Context(), anImage, tt.policy, func(context.Context) ([]regcred.Credential, error) {
			lookups++
			return nil, nil
		})
		if !errors.Is(err, tt.err) || len(s.PullRequests()) != tt.pulls || lookups != tt.lookup {
			t.Errorf("%s, present %t: %v, %d pulls, %d lookups; want %v, %d, %d", tt.policy, tt.present, err, len(s.PullRequests()), lookups, tt.err, tt.pulls, tt.lookup)
		}
		if err == nil && (res.Present != (tt.pulls == 0) || res.Present && (res.ImageRef != "sha256:there" || res.Size != 42)) {
			t.Errorf("%s, present %t: got %+v", tt.policy, tt.present, res)
		}
	}
}

func TestRuntimeLookupFails(t *testing.T) {
	s := &testcri.Server{}
	r := dialServer(t, s, RuntimeOptions{})
	failure := errors.New("no route to metadata server")
	_, err := r.Pull(t.Context(), anImage, PullIfNotPresent, func(context.Context) ([]regcred.Credential, error) { return nil, failure })
	if err != failure || len(s.PullRequests()) != 0 {
		t.Errorf("got %v and %d pulls, want the lookup's own error and none", err, len(s.PullRequests()))
	}
}

func TestRuntimeDiskFull(t *testing.T) {
	s := &testcri.Server{OnPullImage: func(context.Context, *runtimeapi.PullImageRequest) (string, error) {
		return "", status.Error(codes.Unknown, "failed to extract layer: write /var/lib/containerd/x: no space left on device")
	}}
	r := dialServer(t, s, RuntimeOptions{})
	_, err := r.Pull(t.Context(), anImage, PullAlways, fixedLookup(goodCredential, devCredential))
	var failed *Error
	if !errors.As(err, &failed) || failed.Untried != 1 || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free up space") {
		t.Errorf("got %v, want ENOSPC, what to do, and one credential not tried", err)
	}
}

// TestRuntimeNoUserName verifies that the runtime decides about a credential without a user name, as with a kubelet.
func TestRuntimeNoUserName(t *testing.T) {
	s := &testcri.Server{}
	r := dialServer(t, s, RuntimeOptions{})
	_, err := r.Pull(t.Context(), anImage, PullAlways, fixedLookup(regcred.Credential{Password: plugin.NewSecret(canary.PasswordSecret)}))
	if err != nil || len(s.PullRequests()) != 1 {
		t.Errorf("got %v and %d pulls, want one", err, len(s.PullRequests()))
	}
}

// TestRuntimeRestart stops the runtime in the middle of a pull.
func TestRuntimeRestart(t *testing.T) {
	began := make(chan bool, 9)
	var notReady, attempts int
	s := &testcri.Server{}
	s.OnPullImage = func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) {
		if attempts++; attempts == 1 {
			began <- true
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "sha256:abc", nil
	}
	s.OnImageStatus = func(context.Context, *runtimeapi.ImageSpec) (*runtimeapi.Image, error) {
		if notReady++; notReady <= 2 { // as containerd does immediately after its start
			return nil, status.Error(codes.Unknown, "server is not initialized yet")
		}
		return nil, nil
	}
	r := dialServer(t, s, RuntimeOptions{})
	go func() {
		<-began
		s.Stop()
		s.Start(t)
	}()
	res, err := r.Pull(t.Context(), anImage, PullAlways, fixedLookup(goodCredential))
	if err != nil || res.ImageRef != "sha256:abc" || len(res.Failed) != 0 {
		t.Errorf("got %+v, %v; want the pull, repeated", res, err)
	}
	if attempts != 2 || notReady < 3 {
		t.Errorf("%d pulls and %d questions whether it is ready, want 2 and 3 or more", attempts, notReady)
	}
}

func TestRuntimeGone(t *testing.T) {
	s := &testcri.Server{}
	s.OnPullImage = func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) {
		go s.Stop()
		<-ctx.Done()
		return "", ctx.Err()
	}
	r := dialServer(t, s, RuntimeOptions{ReconnectTimeout: 100 * time.Millisecond})
	_, err := r.Pull(t.Context(), anImage, PullAlways, fixedLookup(goodCredential, devCredential))
	var failed *Error
	if !errors.As(err, &failed) || !errors.Is(err, ErrRuntimeGone) || failed.Untried != 1 || !strings.Contains(err.Error(), "was not available again within 100ms") {
		t.Errorf("got %v, want ErrRuntimeGone and one credential not tried", err)
	}
	// The next pull fails as well.
	if _, err := r.Pull(t.Context(), anImage, PullIfNotPresent, fixedLookup()); !errors.Is(err, ErrRuntimeGone) {
		t.Errorf("got %v, want ErrRuntimeGone", err)
	}
}

// TestRuntimeUnavailableTwice verifies that a call is repeated only once if the runtime
// returns the code Unavailable.
func TestRuntimeUnavailableTwice(t *testing.T) {
	s := &testcri.Server{OnPullImage: func(context.Context, *runtimeapi.PullImageRequest) (string, error) {
		return "", status.Error(codes.Unavailable, "try later")
	}}
	r := dialServer(t, s, RuntimeOptions{})
	if _, err := r.Pull(t.Context(), anImage, PullAlways, fixedLookup(goodCredential)); err == nil || len(s.PullRequests()) != 2 {
		t.Errorf("got %v after %d pulls, want an error after 2", err, len(s.PullRequests()))
	}
}

func TestRuntimeHangs(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	s := &testcri.Server{
		OnImageStatus: func(ctx context.Context, _ *runtimeapi.ImageSpec) (*runtimeapi.Image, error) { return nil, hang(ctx) },
		OnPullImage:   func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) { return "", hang(ctx) },
	}
	r := dialServer(t, s, RuntimeOptions{})
	r.opts.Timeout = 20 * time.Millisecond // does not apply to the connection, which may take longer
	_, err := r.Pull(t.Context(), anImage, PullIfNotPresent, fixedLookup())
	// A timeout is ErrRuntimeGone, so that the next image is not requested, which would take
	// just as long.
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrRuntimeGone) || !strings.Contains(err.Error(), "no response within 20ms") {
		t.Errorf("status: %v, want a deadline, and ErrRuntimeGone", err)
	}
	cause := errors.New("not pulled within 20ms")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, cause)
	defer cancel()
	_, err = r.Pull(ctx, anImage, PullAlways, fixedLookup(goodCredential, devCredential))
	var failed *Error
	if !errors.As(err, &failed) || !errors.Is(err, context.DeadlineExceeded) || failed.Untried != 1 || !strings.Contains(err.Error(), cause.Error()) {
		t.Errorf("pull: %v, want the deadline and its cause, one credential not tried", err)
	}
}

func TestRuntimeCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan bool, 1)
	s := &testcri.Server{OnPullImage: func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) {
		cancel()
		<-ctx.Done()
		told <- true
		return "", ctx.Err()
	}}
	r := dialServer(t, s, RuntimeOptions{})
	_, err := r.Pull(ctx, anImage, PullAlways, fixedLookup(goodCredential, devCredential))
	if !errors.Is(err, context.Canceled) || len(s.PullRequests()) != 1 {
		t.Errorf("got %v after %d pulls, want context.Canceled after one", err, len(s.PullRequests()))
	}
	<-told // wait until the runtime has canceled its call
}

// TestRuntimeEmptyAnswer verifies that responses that the kubelet treats as failures are
// failures.
func TestRuntimeEmptyAnswer(t *testing.T) {
	var there *runtimeapi.Image
	s := &testcri.Server{
		OnImageStatus: func(context.Context, *runtimeapi.ImageSpec) (*runtimeapi.Image, error) { return there, nil },
		OnPullImage:   func(context.Context, *runtimeapi.PullImageRequest) (string, error) { return "", nil },
	}
	r := dialServer(t, s, RuntimeOptions{})
	if _, err := r.Pull(t.Context(), anImage, PullAlways, fixedLookup(goodCredential)); err == nil || !strings.Contains(err.Error(), "the runtime returned neither an error nor an image reference") {
		t.Errorf("no reference: got %v", err)
	}
	for name, image := range map[string]*runtimeapi.Image{"no ID": {Size: 42}, "no size": {Id: "sha256:there"}} {
		there = image
		if _, err := r.Pull(t.Context(), anImage, PullIfNotPresent, fixedLookup(goodCredential)); err == nil || !strings.Contains(err.Error(), "reports no ID or size") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestRuntimeLargeMessage verifies that a response may exceed gRPC's default limit, but not
// the kubelet's limit.
func TestRuntimeLargeMessage(t *testing.T) {
	size := 5 << 20
	s := &testcri.Server{OnImageStatus: func(context.Context, *runtimeapi.ImageSpec) (*runtimeapi.Image, error) {
		return &runtimeapi.Image{Id: strings.Repeat("x", size), Size: 1}, nil
	}}
	r := dialServer(t, s, RuntimeOptions{})
	if res, err := r.Pull(t.Context(), anImage, PullIfNotPresent, fixedLookup()); err != nil || len(res.ImageRef) != size {
		t.Errorf("5 MiB: %v", err)
	}
	size = 17 << 20
	_, err := r.Pull(t.Context(), anImage, PullIfNotPresent, fixedLookup())
	if err == nil || !strings.Contains(err.Error(), "the runtime's response exceeds the kubelet's limit of 16 MiB") {
		t.Errorf("17 MiB: got %v", err)
	}
}
