// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred/internal/containerd"
)

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

// pauseImageFromStatus returns "" if the status does not contain the pause image.
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
