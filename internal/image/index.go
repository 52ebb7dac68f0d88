// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package image

import (
	"encoding/json"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// PlatformImage is the image for one platform.
type PlatformImage struct {
	Image v1.Image
	SBOM  []byte // SBOM as CycloneDX JSON; may be empty
}

// BuildIndex returns an index of the images for a release's platforms and their SBOMs. The images
// are in the given order. The SBOMs come last and have no platform, so that clients pull an image
// and not an SBOM. Copies of the index include the SBOMs.
func BuildIndex(r Release, parts []PlatformImage) (v1.ImageIndex, error) {
	var images, boms []mutate.IndexAddendum
	for _, p := range parts {
		config, err := p.Image.ConfigFile()
		if err != nil {
			return nil, err
		}
		images = append(images, mutate.IndexAddendum{Add: indexEntry{p.Image}, Descriptor: v1.Descriptor{Platform: config.Platform()}})
		if len(p.SBOM) == 0 {
			continue
		}
		bom, err := newSBOM(r, p)
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

// SBOMMediaType is the artifact type of an image's SBOM, and the media type of its only
// layer.
const SBOMMediaType = "application/vnd.cyclonedx+json"

// sbomArtifact is an artifact whose subject is an image, so that registries list it as a referrer.
// It uses the empty configuration of the OCI image specification.
type sbomArtifact struct {
	manifest []byte
	layer    v1.Layer
}

const (
	emptyMediaType  = "application/vnd.oci.empty.v1+json"
	emptyConfigJSON = "{}"
)

func newSBOM(r Release, p PlatformImage) (v1.Image, error) {
	subject, err := partial.Descriptor(p.Image)
	if err != nil {
		return nil, err
	}
	layer := static.NewLayer(p.SBOM, SBOMMediaType)
	content, err := partial.Descriptor(layer)
	if err != nil {
		return nil, err
	}
	content.Annotations = map[string]string{"org.opencontainers.image.title": "regcred.cdx.json"}
	config, err := partial.Descriptor(static.NewLayer([]byte(emptyConfigJSON), emptyMediaType))
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: SBOMMediaType,
		Config: *config, Layers: []v1.Descriptor{*content},
		Subject:     &v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest},
		Annotations: map[string]string{"org.opencontainers.image.created": r.ociLabels()["org.opencontainers.image.created"]},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&sbomArtifact{manifest, layer})
}

// MediaType returns the media type of the manifest.
func (*sbomArtifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest returns the manifest as stored.
func (b *sbomArtifact) RawManifest() ([]byte, error) { return b.manifest, nil }

// RawConfigFile returns the empty configuration.
func (*sbomArtifact) RawConfigFile() ([]byte, error) { return []byte(emptyConfigJSON), nil }

// LayerByDigest returns the only layer.
func (b *sbomArtifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return b.layer, nil }
