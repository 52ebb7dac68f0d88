// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testcri

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Server implements the CRI calls needed for a pull. The zero value has no images, and
// each pull succeeds immediately. Set the functions before Start.
type Server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	// These functions, if not nil, handle the calls.
	OnVersion     func(context.Context) (*runtimeapi.VersionResponse, error)
	OnImageFsInfo func(context.Context) error
	OnImageStatus func(context.Context, *runtimeapi.ImageSpec) (*runtimeapi.Image, error)
	OnPullImage   func(context.Context, *runtimeapi.PullImageRequest) (string, error)

	Socket      string
	Config      string // config in the verbose status, as JSON; "" omits it
	PinnedImage string // the image that ImageStatus reports as pinned

	mu           sync.Mutex
	pulledImages map[string]bool
	pulls        []*runtimeapi.PullImageRequest
	grpc         *grpc.Server
	ended        chan struct{}
}

// Start listens on a new socket until the test ends. It may be called again after
// [Server.Stop].
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if s.Socket == "" {
		dir, err := os.MkdirTemp("", "cri") // not t.TempDir; see StartContainerd
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		s.Socket = filepath.Join(dir, "cri.sock")
	}
	l, err := net.Listen("unix", s.Socket)
	if err != nil {
		t.Fatal(err)
	}
	s.grpc, s.ended = grpc.NewServer(grpc.MaxSendMsgSize(1<<30)), make(chan struct{})
	runtimeapi.RegisterRuntimeServiceServer(s.grpc, s)
	runtimeapi.RegisterImageServiceServer(s.grpc, s)
	go func(server *grpc.Server, ended chan struct{}) {
		defer close(ended)
		_ = server.Serve(l) // ends with Stop
	}(s.grpc, s.ended)
	t.Cleanup(s.Stop)
}

// Stop stops the server and aborts calls in progress.
func (s *Server) Stop() {
	s.grpc.Stop()
	<-s.ended
}

// PullRequests returns the pull requests in order of arrival.
func (s *Server) PullRequests() []*runtimeapi.PullImageRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pulls)
}

// Version implements the CRI call.
func (s *Server) Version(ctx context.Context, _ *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	if s.OnVersion != nil {
		return s.OnVersion(ctx)
	}
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "testcri", RuntimeVersion: "1.0", RuntimeApiVersion: "v1"}, nil
}

// Status implements the CRI call.
func (s *Server) Status(_ context.Context, req *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	resp := &runtimeapi.StatusResponse{}
	if req.Verbose && s.Config != "" {
		resp.Info = map[string]string{"config": s.Config}
	}
	return resp, nil
}

// ImageFsInfo implements the CRI call.
func (s *Server) ImageFsInfo(ctx context.Context, _ *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	if s.OnImageFsInfo != nil {
		return nil, s.OnImageFsInfo(ctx)
	}
	return &runtimeapi.ImageFsInfoResponse{}, nil
}

// ImageStatus implements the CRI call.
func (s *Server) ImageStatus(ctx context.Context, req *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	if s.OnImageStatus != nil {
		image, err := s.OnImageStatus(ctx, req.Image)
		return &runtimeapi.ImageStatusResponse{Image: image}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.pulledImages[req.Image.Image] {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "sha256:" + req.Image.Image, Size: 1 << 20, Pinned: req.Image.Image == s.PinnedImage}}, nil
}

// PullImage implements the CRI call.
func (s *Server) PullImage(ctx context.Context, req *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	s.mu.Lock()
	s.pulls = append(s.pulls, req)
	s.mu.Unlock()
	ref := "sha256:" + req.Image.Image
	if s.OnPullImage != nil {
		var err error
		if ref, err = s.OnPullImage(ctx, req); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pulledImages == nil {
		s.pulledImages = map[string]bool{}
	}
	s.pulledImages[req.Image.Image] = true
	return &runtimeapi.PullImageResponse{ImageRef: ref}, nil
}

// UnauthorizedError is the error that containerd 1.6 returns for a 401.
func UnauthorizedError(req *runtimeapi.PullImageRequest) error {
	return status.Errorf(codes.Unknown, "failed to pull and unpack image %q: failed to resolve reference %[1]q: "+
		"failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized", req.Image.Image)
}
