// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package image

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// PlatformImage is one platform's image.
type PlatformImage struct {
	Image v1.Image
	BOM   []byte // SBOM as CycloneDX JSON; may be empty
}

// BuildIndex returns an index of the images for a release's platforms, in the given
// order, and their SBOMs. The SBOMs come last and have no platform, so that clients
// pull an image and not an SBOM, and copies of the index include the SBOMs.
func BuildIndex(r Release, parts []PlatformImage) (v1.ImageIndex, error) {
	var images, boms []mutate.IndexAddendum
	for _, p := range parts {
		config, err := p.Image.ConfigFile()
		if err != nil {
			return nil, err
		}
		images = append(images, mutate.IndexAddendum{Add: indexEntry{p.Image}, Descriptor: v1.Descriptor{Platform: config.Platform()}})
		if len(p.BOM) == 0 {
			continue
		}
		bom, err := newBOM(r, p)
		if err != nil {
			return nil, err
		}
		boms = append(boms, mutate.IndexAddendum{Add: indexEntry{bom}, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"},
		}})
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), append(images, boms...)...)
	return mutate.Annotations(index, r.ociLabels()).(v1.ImageIndex), nil
}

// indexEntry is an image that is listed in an index without its artifactType. skopeo
// 1.9 drops that field when it copies an index, which would change the index's digest.
type indexEntry struct{ v1.Image }

// Descriptor returns the index's entry for an image.
func (e indexEntry) Descriptor() (*v1.Descriptor, error) {
	d, err := partial.Descriptor(e.Image)
	if err != nil {
		return nil, err
	}
	d.ArtifactType = ""
	return d, nil
}
