// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred/internal/login"
)

// target is an image and its registry.
type target struct {
	login.Target
	ref  name.Reference
	name string // full reference; docker.io for Docker Hub, as in the kubelet
}

func parseTarget(image string, insecure bool) (target, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return target{}, fmt.Errorf("not an image reference (want registry/repository:tag or @digest): %w", err)
	}
	t := target{ref: ref, name: ref.Name()}
	repo := ref.Context()
	if t.Target, err = login.NewTarget(repo.Registry, repo.Scope(transport.PullScope), insecure); err != nil {
		return target{}, err
	}
	if rest, ok := strings.CutPrefix(t.name, name.DefaultRegistry+"/"); ok {
		t.name = "docker.io/" + rest
	}
	return t, nil
}
