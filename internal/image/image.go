// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package image builds regcred's image for nodes from compiled programs. Builds are
// reproducible: the same input gives the same bytes.
//
//	img, err := image.Build(image.BuildOptions{
//		Programs: []string{"dist/linux_amd64"}, License: "LICENSE",
//		Platform: v1.Platform{OS: "linux", Architecture: "amd64"},
//		Release:  image.Release{Version: "v1.2.3", Revision: commit, Created: time.Unix(epoch, 0)},
//	})
//
// The package does not compile programs or push images.
package image

import (
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// UserID is the image's user. It is a number, because the kubelet rejects user names
// with runAsNonRoot.
const UserID = "65532:65532"

// SourceURL is the source repository in the image's labels.
const SourceURL = "https://github.com/regcred/regcred"

// Release describes an image. It is part of the digest.
type Release struct {
	Version  string    // such as v1.2.3
	Revision string    // the commit; may be empty
	Created  time.Time // truncated to seconds; also used as the time of every file
}

// BuildOptions holds the input of [Build].
type BuildOptions struct {
	Programs []string // directories; a program is taken from the first one that contains it
	License  string   // path of the license
	Platform v1.Platform
	Release  Release
}

// Build builds a platform's image in memory. It returns an error if a program is
// missing, is built for another platform, or is dynamically linked.
func Build(o BuildOptions) (v1.Image, error) {
	layer, err := newLayer(o)
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: o.Release.createdTime()}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: layer, History: v1.History{Created: created, CreatedBy: "regcred " + o.Release.Version},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = o.Platform.OS, o.Platform.Architecture, created
	config.Config = v1.Config{
		Entrypoint: []string{"/bin/regcred"}, Env: []string{"PATH=/bin"}, WorkingDir: "/", User: UserID,
		Labels: o.Release.ociLabels(),
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(image, o.Release.ociLabels()).(v1.Image), nil
}

func (r Release) createdTime() time.Time { return r.Created.UTC().Truncate(time.Second) }

// ociLabels returns the OCI image specification's labels, which are also used as annotations.
func (r Release) ociLabels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       "regcred",
		"org.opencontainers.image.description": "Credential provider plugins for kubelets, and the programs that install them on nodes",
		"org.opencontainers.image.version":     r.Version,
		"org.opencontainers.image.source":      SourceURL,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.created":     r.createdTime().Format(time.RFC3339),
	}
	if r.Revision != "" {
		labels["org.opencontainers.image.revision"] = r.Revision
	}
	return labels
}
