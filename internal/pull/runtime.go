// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distribution/reference"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/layout"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/remote"
)

// Policy decides when a [Runtime] pulls an image.
type Policy string

// The policies, named as a container's imagePullPolicy.
const (
	PullIfNotPresent Policy = "IfNotPresent"
	PullAlways       Policy = "Always"
	PullNever        Policy = "Never"
)

// Runtime pulls images into a container runtime over CRI, as a kubelet does. It
// is created by [DialRuntime], and safe for concurrent use.
type Runtime struct {
	// Name and Version are the runtime's own, e.g. "containerd" and "1.7.27";
	// "" if the socket serves only images.
	Name, Version string

	opts   RuntimeOptions
	socket string // path
	conn   *grpc.ClientConn
	images runtimeapi.ImageServiceClient
}

// RuntimeOptions configure a [Runtime].
type RuntimeOptions struct {
	// Timeout limits each call except pulls; 0 means 2 minutes, as in the kubelet. The
	// first call has at most 10 seconds. The context limits a pull.
	Timeout time.Duration

	// Return is the time to wait for a runtime that goes away; 0 means 30 seconds.
	Return time.Duration

	// Refused, if not nil, is called with each credential that the registry
	// rejected with 401, if the runtime's message shows that.
	Refused func(regcred.Credential)
}

// RuntimeResult is a successful pull into a runtime, or an image that was present.
type RuntimeResult struct {
	Image      string              // as requested
	Ref        string              // of the image in the runtime: its ID or a digest, depending on the runtime
	Present    bool                // it was present, and nothing was pulled
	Size       int64               // bytes, as the runtime reports; 0 if it does not
	Pinned     bool                // the runtime does not want a kubelet to remove it when its disk is full
	Credential *regcred.Credential // the one that worked; nil if none was needed
	Failed     []Try               // those that were tried before it
}

// errNotPresent reports an image that [PullNever] forbids to pull.
var errNotPresent = errors.New("the image is not present, and the pull policy is Never")

// ErrRuntimeGone is wrapped by a failure after which the runtime does not respond any more.
var ErrRuntimeGone = errors.New("lost the connection to the container runtime")

// Pull pulls an image with one credential after the other. lookup returns the credentials;
// it is only called if a pull is necessary. Its error is returned unchanged.
//
// A credential is sent with the name of the image's registry, so that the
// runtime sends it to no other host; CRI-O ignores the name. If the runtime
// goes away, Pull waits for it and repeats the interrupted call once.
//
// If every try fails, the error is an [*Error] with all of them. It matches
// [context.Canceled], [context.DeadlineExceeded] and [ErrRuntimeGone] with [errors.Is].
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

// runtimePull is one call of Pull.
type runtimePull struct {
	r    *Runtime
	spec *runtimeapi.ImageSpec
	host string // the registry
}

func (r *Runtime) newPull(image string) (*runtimePull, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, fmt.Errorf("not an image reference: %w", err)
	}
	// kubelet: the tag is appended to the given name
	// (applyDefaultImageTag), so that the runtime resolves short names.
	full := image
	if reference.IsNameOnly(named) {
		full += ":latest"
	}
	host := reference.Domain(named)
	if host == "docker.io" {
		host = "registry-1.docker.io" // containerd's name for the server
	}
	return &runtimePull{r, &runtimeapi.ImageSpec{Image: full, UserSpecifiedImage: image}, host}, nil
}

// isPresent reports whether the runtime has the image.
func (p *runtimePull) isPresent(ctx context.Context, res *RuntimeResult) (found bool, err error) {
	err = p.r.callAgain(ctx, func(ctx context.Context) error {
		got, err := p.r.status(ctx, p.spec)
		if err == nil && got != nil {
			found, res.Ref, res.Size, res.Pinned = true, got.Id, int64(got.Size), got.Pinned
		}
		return err
	})
	return found, err
}

func (r *Runtime) status(ctx context.Context, spec *runtimeapi.ImageSpec, opts ...grpc.CallOption) (*runtimeapi.Image, error) {
	wait := cmp.Or(r.opts.Timeout, 2*time.Minute)
	// Another call would wait as long.
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("%w: no response within %s: %w", ErrRuntimeGone, wait, context.DeadlineExceeded))
	defer cancel()
	got, err := r.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: spec}, opts...)
	if err != nil {
		return nil, newRuntimeError(ctx, err)
	}
	// kubelet: cri-client treats this as a failure.
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
	res.Credential, res.Failed, err = tryEach(ctx, &login.Secrets{}, res.Image, creds, p.r.opts.Refused, func(cred *regcred.Credential) error {
		return p.try(ctx, cred, res)
	})
	if err != nil {
		return err
	}
	// Only for the report: the pull has succeeded in any case.
	if got, err := p.r.status(ctx, p.spec); err == nil && got != nil {
		res.Size, res.Pinned = int64(got.Size), got.Pinned
	}
	return nil
}

// try is one pull with one credential.
func (p *runtimePull) try(ctx context.Context, cred *regcred.Credential, res *RuntimeResult) error {
	req := &runtimeapi.PullImageRequest{Image: p.spec}
	if cred != nil {
		if cred.Username == "" {
			return login.ErrNoUsername
		}
		// Both runtimes support these fields, but not auth and tokens.
		// containerd compares the host in the address, also for plain HTTP.
		req.Auth = &runtimeapi.AuthConfig{Username: cred.Username, Password: cred.Password.Reveal(), ServerAddress: "https://" + p.host}
	}
	return p.r.callAgain(ctx, func(ctx context.Context) error {
		got, err := p.r.images.PullImage(ctx, req)
		if err != nil {
			return newRuntimeError(ctx, err).pinnedTo(p.host, cred)
		}
		if got.ImageRef == "" { // kubelet: cri-client treats this as a failure
			return errors.New("the runtime returned neither an error nor an image reference")
		}
		res.Ref = got.ImageRef
		return nil
	})
}

// callAgain makes a call, and again if the runtime went away during it and came back.
func (r *Runtime) callAgain(ctx context.Context, call func(context.Context) error) error {
	err := call(ctx)
	if !isAway(err) || ctx.Err() != nil {
		return err
	}
	if r.waitUntilReady(ctx) != nil {
		if ctx.Err() != nil {
			return err
		}
		return &layout.LocalError{Err: fmt.Errorf("%w (%w), and the runtime was not available again within %s", ErrRuntimeGone, err, r.returnTimeout())}
	}
	return call(ctx)
}

func (r *Runtime) returnTimeout() time.Duration { return cmp.Or(r.opts.Return, 30*time.Second) }

// waitUntilReady waits until the runtime responds again.
func (r *Runtime) waitUntilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.returnTimeout())
	defer cancel()
	// Any image will do. A runtime that only begins to serve its socket does not respond.
	spec := &runtimeapi.ImageSpec{Image: "registry.invalid/regcred:probe"}
	for {
		_, err := r.status(ctx, spec, grpc.WaitForReady(true))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !isAway(err) && !errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if !remote.Pause(ctx, 100*time.Millisecond) {
			return cmp.Or(ctx.Err(), context.DeadlineExceeded)
		}
	}
}

// Close closes the connection and ends its pulls.
func (r *Runtime) Close() error { return r.conn.Close() }

// String returns the runtime's name and version: "containerd 1.7.27".
func (r *Runtime) String() string {
	return cmp.Or(strings.TrimSpace(r.Name+" "+r.Version), "an image service")
}

// FullName returns the full name of an image reference:
// "docker.io/library/nginx:latest" of "nginx".
func FullName(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("image %q: not an image reference: %w", image, err)
	}
	return reference.TagNameOnly(named).String(), nil
}
