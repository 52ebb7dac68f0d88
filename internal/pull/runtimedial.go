// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/remote"
)

// maxDialTimeout limits the first call. A healthy runtime responds to it immediately.
const maxDialTimeout = 10 * time.Second

// DialRuntime connects to a CRI socket and determines which runtime serves it. endpoint is a
// URL such as "unix:///run/containerd/containerd.sock" or a path, as for the kubelet. The
// caller must close the Runtime.
func DialRuntime(ctx context.Context, endpoint string, opts RuntimeOptions) (*Runtime, error) {
	socket, err := SocketPath(endpoint)
	if err != nil {
		return nil, err
	}
	if err := checkSocket(ctx, socket); err != nil {
		return nil, fmt.Errorf("connect to the container runtime: %w", err)
	}
	dialer := func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	// The kubelet uses the same backoff, with which it finds a restarted runtime quickly.
	// MinConnectTimeout is longer than the first call's timeout, so that detectRuntime
	// reports a socket that does not respond. gRPC would not report why it gave up.
	retry := grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 2 * opts.firstCallTimeout()}
	retry.Backoff.BaseDelay, retry.Backoff.MaxDelay = 100*time.Millisecond, 3*time.Second
	conn, err := grpc.NewClient("passthrough:///"+socket,
		grpc.WithContextDialer(dialer),
		grpc.WithAuthority("localhost"), // a path would not be a valid HTTP/2 authority
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(retry),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageSize)))
	if err != nil {
		return nil, fmt.Errorf("connect to the container runtime at %s: %w", socket, err)
	}
	r := &Runtime{opts: opts, socket: socket, conn: conn, images: runtimeapi.NewImageServiceClient(conn)}
	if err := r.detectRuntime(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("query the version of the container runtime at %s: %w", socket, login.SafeError(err))
	}
	return r, nil
}

// SocketPath returns the path of a CRI endpoint, which is unix:///path or an absolute
// path.
func SocketPath(endpoint string) (string, error) {
	if strings.HasPrefix(endpoint, "npipe:") {
		return "", fmt.Errorf("runtime endpoint %q: only unix sockets are supported, not named pipes", excerpt.RedactAddress(endpoint))
	}
	socket := endpoint
	if strings.Contains(endpoint, ":") && !path.IsAbs(endpoint) {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "unix" || u.Opaque != "" {
			return "", fmt.Errorf("runtime endpoint %q: must be a socket path in the form unix:///PATH", excerpt.RedactAddress(endpoint))
		}
		if u.Host != "" {
			return "", fmt.Errorf("runtime endpoint %q: the path is not absolute; use unix:///%s%s, with three slashes", excerpt.RedactAddress(endpoint), u.Host, u.Path)
		}
		socket = u.Path
	}
	if !path.IsAbs(socket) {
		return "", fmt.Errorf("runtime endpoint %q: must be a socket path in the form unix:///PATH", excerpt.RedactAddress(endpoint))
	}
	return socket, nil
}

// checkSocket reports socket problems more clearly than gRPC, which retries.
func checkSocket(ctx context.Context, socket string) error {
	info, err := os.Stat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: is the runtime running, and is this its socket?", err)
	case err != nil:
		return explainDialError(err)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s is not a socket", socket)
	}
	ctx, cancel := context.WithTimeout(ctx, maxDialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return explainDialError(err)
	}
	return conn.Close()
}

func explainDialError(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: only root and the socket's group can use the socket", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: nothing is listening on the socket: the runtime has exited", err)
	}
	return err
}

// firstCallTimeout returns the timeout of the first call.
func (o RuntimeOptions) firstCallTimeout() time.Duration {
	return min(cmp.Or(o.Timeout, maxDialTimeout), maxDialTimeout)
}

// detectRuntime finds out which runtime serves the socket, and whether it serves images
// in CRI v1.
func (r *Runtime) detectRuntime(ctx context.Context) error {
	wait := r.opts.firstCallTimeout()
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("no response within %s: the server hangs or is not a CRI runtime: %w", wait, context.DeadlineExceeded))
	defer cancel()
	v, err := r.getVersion(ctx)
	if err == nil {
		r.Name, r.Version = cleanRuntimeName(v.RuntimeName), cleanRuntimeName(v.RuntimeVersion)
		return nil
	}
	if status.Code(err) == codes.Unimplemented {
		// The server may be a proxy for the image service (--image-service-endpoint), which
		// is not a runtime. The kubelet uses the same call to check an image service.
		_, err = r.images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	}
	switch {
	case err == nil:
		return nil
	case status.Code(err) == codes.Unimplemented:
		return fmt.Errorf("the server does not support CRI v1: %w", newRuntimeError(ctx, err))
	case status.Code(err) == codes.Unavailable && ctx.Err() == nil:
		return fmt.Errorf("the server is not a CRI runtime or has just exited: %w", newRuntimeError(ctx, err))
	}
	return newRuntimeError(ctx, err)
}

// cleanRuntimeName returns a runtime's name on one line with limited length.
func cleanRuntimeName(s string) string {
	return login.Truncate(strings.Join(strings.Fields(s), " "), 100)
}

// getVersion calls Version until the runtime is ready, because containerd serves its
// socket slightly before that.
func (r *Runtime) getVersion(ctx context.Context) (*runtimeapi.VersionResponse, error) {
	for {
		v, err := runtimeapi.NewRuntimeServiceClient(r.conn).Version(ctx, &runtimeapi.VersionRequest{})
		if err == nil || !strings.Contains(status.Convert(err).Message(), notInitializedMessage) {
			return v, err
		}
		if !remote.Sleep(ctx, 100*time.Millisecond) {
			return nil, err
		}
	}
}
