// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PauseImage returns the image in which the runtime starts each pod. A runtime
// pulls it by itself, and without any credential. (kubeadm finds it in the same
// place: cmd/kubeadm/app/util/runtime, SandboxImage.)
func (r *Runtime) PauseImage(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.greeting())
	defer cancel()
	resp, err := runtimeapi.NewRuntimeServiceClient(r.conn).Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", fmt.Errorf("asking the runtime for its pause image: %w", newRuntimeError(ctx, err))
	}
	var config struct {
		SandboxImage string `json:"sandboxImage"`
	}
	if err := json.Unmarshal([]byte(resp.GetInfo()["config"]), &config); err != nil || config.SandboxImage == "" {
		return "", errors.New("the runtime does not say which its pause image is")
	}
	if _, err := FullName(config.SandboxImage); err != nil {
		return "", fmt.Errorf("the runtime's pause image: %w", err)
	}
	return config.SandboxImage, nil
}
