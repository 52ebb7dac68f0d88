// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package image

import (
	"encoding/json"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// BOMType is the artifact type of an image's SBOM, and the media type of its only
// layer.
const BOMType = "application/vnd.cyclonedx+json"

// bomArtifact is an artifact whose subject is an image, so that registries list it as a
// referrer. It uses the empty configuration of the specification.
type bomArtifact struct {
	manifest []byte
	layer    v1.Layer
}

const (
	emptyMediaType  = "application/vnd.oci.empty.v1+json"
	emptyConfigJSON = "{}"
)

func newBOM(r Release, p PlatformImage) (v1.Image, error) {
	subject, err := partial.Descriptor(p.Image)
	if err != nil {
		return nil, err
	}
	layer := static.NewLayer(p.BOM, BOMType)
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
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: BOMType,
		Config: *config, Layers: []v1.Descriptor{*content},
		Subject:     &v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest},
		Annotations: map[string]string{"org.opencontainers.image.created": r.ociLabels()["org.opencontainers.image.created"]},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&bomArtifact{manifest, layer})
}

// MediaType returns the media type of the manifest.
func (*bomArtifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest returns the manifest as stored.
func (b *bomArtifact) RawManifest() ([]byte, error) { return b.manifest, nil }

// RawConfigFile returns the empty configuration.
func (*bomArtifact) RawConfigFile() ([]byte, error) { return []byte(emptyConfigJSON), nil }

// LayerByDigest returns the only layer.
func (b *bomArtifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return b.layer, nil }
