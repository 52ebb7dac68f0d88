// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distribution/reference"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/layout"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/remote"
)

// Policy determines when a [Runtime] pulls an image.
type Policy string

// Policies, named like the values of a container's imagePullPolicy.
const (
	PullIfNotPresent Policy = "IfNotPresent"
	PullAlways       Policy = "Always"
	PullNever        Policy = "Never"
)

// Runtime pulls images into a container runtime over CRI, as the kubelet does. Create
// one with [DialRuntime]. It is safe for concurrent use.
type Runtime struct {
	// Name and Version are reported by the runtime, for example "containerd" and
	// "1.7.27". They are "" if the socket serves only images.
	Name, Version string

	opts   RuntimeOptions
	socket string // path
	conn   *grpc.ClientConn
	images runtimeapi.ImageServiceClient
}

// RuntimeOptions configures a [Runtime].
type RuntimeOptions struct {
	// Timeout limits each call except pulls; 0 means 2 minutes, as in the kubelet. The
	// first call is limited to 10 seconds. A pull is limited only by its context.
	Timeout time.Duration

	// ReconnectTimeout limits how long to wait for an unavailable runtime to come back; 0 means
	// 30 seconds.
	ReconnectTimeout time.Duration

	// OnRejected, if not nil, is called with each credential that the registry rejected
	// with 401, provided that the runtime's error message shows this.
	OnRejected func(regcred.Credential)
}

// RuntimeResult describes an image that was pulled into a runtime or was already
// present.
type RuntimeResult struct {
	Image      string              // as requested
	ImageRef   string              // the image's reference in the runtime: an ID or a digest, depending on the runtime
	Present    bool                // the image was already present, and nothing was pulled
	Size       int64               // in bytes, as reported by the runtime; 0 if not reported
	Pinned     bool                // the runtime asks the kubelet not to remove the image when the disk is full
	Credential *regcred.Credential // the accepted credential; nil if none was needed
	Failed     []Try               // failed tries before it
}

// errNotPresent is returned if the image is missing and the policy is [PullNever].
var errNotPresent = errors.New("the image is not present, and the pull policy is Never")

// ErrRuntimeGone is wrapped in errors about a runtime that no longer responds.
var ErrRuntimeGone = errors.New("lost the connection to the container runtime")

// Pull pulls an image and tries one credential after another. lookup returns the
// credentials. It is called only if a pull is necessary, and its error is returned
// unchanged.
//
// Each credential is sent with the name of the image's registry, so that the runtime
// sends it to no other host. CRI-O ignores this name. If the runtime becomes
// unavailable, Pull waits for it and repeats the interrupted call once.
//
// If every try fails, Pull returns an [*Error] that contains all tries. With
// [errors.Is], the error matches [context.Canceled], [context.DeadlineExceeded] and
// [ErrRuntimeGone].
func (r *Runtime) Pull(ctx context.Context, image string, policy Policy, lookup func(context.Context) ([]regcred.Credential, error)) (*RuntimeResult, error) {
	p, err := r.newPull(image)
	if err != nil {
		return nil, fmt.Errorf("pulling %q: %w", image, err)
	}
	res := &RuntimeResult{Image: image}
	if policy != PullAlways {
		if res.Present, err = p.isPresent(ctx, res); err != nil {
			return nil, fmt.Errorf("pull %q: check whether the image is present: %w", image, login.SafeError(err))
		}
		if !res.Present && policy == PullNever {
			return nil, fmt.Errorf("pulling %q: %w", image, errNotPresent)
		}
	}
	if !res.Present {
		err = p.tryAll(ctx, res, lookup)
	}
	return res, err
}

// runtimePull holds the state of one call of [Runtime.Pull].
type runtimePull struct {
	r    *Runtime
	spec *runtimeapi.ImageSpec
	host string // host of the image's registry
}

func (r *Runtime) newPull(image string) (*runtimePull, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, fmt.Errorf("not an image reference: %w", err)
	}
	// Append the tag to the given name, as the kubelet does (applyDefaultImageTag), so that
	// the runtime resolves short names.
	full := image
	if reference.IsNameOnly(named) {
		full += ":latest"
	}
	host := reference.Domain(named)
	if host == "docker.io" {
		host = "registry-1.docker.io" // containerd's name for Docker Hub's server
	}
	return &runtimePull{r, &runtimeapi.ImageSpec{Image: full, UserSpecifiedImage: image}, host}, nil
}

func (p *runtimePull) isPresent(ctx context.Context, res *RuntimeResult) (found bool, err error) {
	err = p.r.callWithReconnect(ctx, func(ctx context.Context) error {
		got, err := p.r.imageStatus(ctx, p.spec)
		if err == nil && got != nil {
			found, res.ImageRef, res.Size, res.Pinned = true, got.Id, int64(got.Size), got.Pinned
		}
		return err
	})
	return found, err
}

func (r *Runtime) imageStatus(ctx context.Context, spec *runtimeapi.ImageSpec, opts ...grpc.CallOption) (*runtimeapi.Image, error) {
	wait := cmp.Or(r.opts.Timeout, 2*time.Minute)
	// Do not retry after this timeout, because another call would wait just as long.
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("%w: no response within %s: %w", ErrRuntimeGone, wait, context.DeadlineExceeded))
	defer cancel()
	got, err := r.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: spec}, opts...)
	if err != nil {
		return nil, newRuntimeError(ctx, err)
	}
	// The kubelet's cri-client treats this as a failure.
	if got.Image != nil && (got.Image.Id == "" || got.Image.Size == 0) {
		return nil, errors.New("the runtime reports no ID or size for the image, so the kubelet would not start a container")
	}
	return got.Image, nil
}

func (p *runtimePull) tryAll(ctx context.Context, res *RuntimeResult, lookup func(context.Context) ([]regcred.Credential, error)) error {
	creds, err := lookup(ctx)
	if err != nil {
		return err
	}
	res.Credential, res.Failed, err = tryEach(ctx, &login.Secrets{}, res.Image, creds, p.r.opts.OnRejected, func(cred *regcred.Credential) error {
		return p.try(ctx, cred, res)
	})
	if err != nil {
		return err
	}
	// Ignore an error, because the pull has already succeeded.
	if got, err := p.r.imageStatus(ctx, p.spec); err == nil && got != nil {
		res.Size, res.Pinned = int64(got.Size), got.Pinned
	}
	return nil
}

func (p *runtimePull) try(ctx context.Context, cred *regcred.Credential, res *RuntimeResult) error {
	req := &runtimeapi.PullImageRequest{Image: p.spec}
	if cred != nil {
		// containerd and CRI-O support these fields, but not auth and tokens. containerd
		// compares only the host in the address, so https is correct even for plain HTTP.
		req.Auth = &runtimeapi.AuthConfig{Username: cred.Username, Password: cred.Password.Reveal(), ServerAddress: "https://" + p.host}
	}
	return p.r.callWithReconnect(ctx, func(ctx context.Context) error {
		got, err := p.r.images.PullImage(ctx, req)
		if err != nil {
			return newRuntimeError(ctx, err).markCredentialNotSent(p.host, cred)
		}
		if got.ImageRef == "" { // the kubelet's cri-client treats this as a failure
			return errors.New("the runtime returned neither an error nor an image reference")
		}
		res.ImageRef = got.ImageRef
		return nil
	})
}

// callWithReconnect makes a call. If the runtime becomes unavailable during the call, it
// waits until the runtime responds again, and repeats the call once.
func (r *Runtime) callWithReconnect(ctx context.Context, call func(context.Context) error) error {
	err := call(ctx)
	if !isUnavailable(err) || ctx.Err() != nil {
		return err
	}
	if r.waitUntilReady(ctx) != nil {
		if ctx.Err() != nil {
			return err
		}
		return &layout.LocalError{Err: fmt.Errorf("%w (%w), and the runtime was not available again within %s", ErrRuntimeGone, err, r.reconnectTimeout())}
	}
	return call(ctx)
}

func (r *Runtime) reconnectTimeout() time.Duration {
	return cmp.Or(r.opts.ReconnectTimeout, 30*time.Second)
}

// waitUntilReady waits until the runtime responds again.
func (r *Runtime) waitUntilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.reconnectTimeout())
	defer cancel()
	// Query an image that does not exist, because any name works. A runtime that has only
	// started to serve its socket does not respond.
	spec := &runtimeapi.ImageSpec{Image: "registry.invalid/regcred:probe"}
	for {
		_, err := r.imageStatus(ctx, spec, grpc.WaitForReady(true))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !isUnavailable(err) && !errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if !remote.Sleep(ctx, 100*time.Millisecond) {
			return cmp.Or(ctx.Err(), context.DeadlineExceeded)
		}
	}
}

// Close closes the connection, which ends any pulls.
func (r *Runtime) Close() error { return r.conn.Close() }

// String returns the runtime's name and version, such as "containerd 1.7.27".
func (r *Runtime) String() string {
	return cmp.Or(strings.TrimSpace(r.Name+" "+r.Version), "an image service")
}

// FullName expands an image reference: "nginx" becomes
// "docker.io/library/nginx:latest".
func FullName(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("image %q: not an image reference: %w", image, err)
	}
	return reference.TagNameOnly(named).String(), nil
}

// PauseImage returns the pause image that the runtime uses for pods, and where it is
// configured. A runtime pulls it without the kubelet's credentials.
//
// CRI-O since 1.27, containerd 1 and cri-dockerd report it in their status, which
// kubeadm also reads (cmd/kubeadm/app/util/runtime, SandboxImage). containerd 2 does
// not, so PauseImage reads its configuration: see [containerd.PauseImage]. The
// kubelet's --pod-infra-container-image never configured a CRI runtime and was removed
// in Kubernetes 1.35.
func (r *Runtime) PauseImage(ctx context.Context) (image, from string, err error) {
	image, err = r.pauseImageFromStatus(ctx)
	from = "the runtime's status"
	switch {
	case err != nil:
		return "", "", err
	case image == "" && r.Name == "containerd":
		var file string
		if image, file, err = containerd.PauseImage(ctx, r.socket); err != nil {
			return "", "", fmt.Errorf("read containerd's pause image: %w", err)
		}
		from = "containerd's configuration, " + file
	case image == "":
		return "", "", errors.New("the runtime does not report its pause image")
	}
	if _, err := FullName(image); err != nil {
		return "", "", fmt.Errorf("parse the runtime's pause image from %s: %w", from, err)
	}
	return image, from, nil
}

// pauseImageFromStatus returns the pause image in the runtime's status, or "" if the status
// does not contain one.
func (r *Runtime) pauseImageFromStatus(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.firstCallTimeout())
	defer cancel()
	resp, err := runtimeapi.NewRuntimeServiceClient(r.conn).Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", fmt.Errorf("query the runtime's pause image: %w", newRuntimeError(ctx, err))
	}
	var config struct {
		SandboxImage string `json:"sandboxImage"`
	}
	_ = json.Unmarshal([]byte(resp.GetInfo()["config"]), &config) // the format depends on the runtime
	return config.SandboxImage, nil
}
