// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"encoding/json"
	"fmt"
	"mime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxManifestSize is the size in bytes that a registry must accept and that most registries
// do not exceed (OCI distribution specification, "Pushing Manifests").
const maxManifestSize = 4 << 20

// maxBlobSize is one pebibyte, which is larger than any real layer. It prevents integer
// overflows.
const maxBlobSize = 1 << 50

// acceptedManifestTypes lists the media types that a layout can hold.
var acceptedManifestTypes = strings.Join([]string{
	string(types.OCIImageIndex), string(types.OCIManifestSchema1),
	string(types.DockerManifestList), string(types.DockerManifestSchema2),
}, ", ")

// manifest is a verified manifest or index with its descriptor.
type manifest struct {
	raw  []byte
	desc v1.Descriptor
}

// manifestDigest returns the digest of a manifest. If the manifest was requested by digest, the
// two digests must match.
func manifestDigest(id string, raw []byte) (v1.Hash, error) {
	want, err := v1.NewHash(id)
	if err != nil { // a tag
		want = v1.Hash{Algorithm: "sha256"}
	}
	h, err := v1.Hasher(want.Algorithm)
	if err != nil {
		return v1.Hash{}, err
	}
	h.Write(raw)
	got := v1.Hash{Algorithm: want.Algorithm, Hex: fmt.Sprintf("%x", h.Sum(nil))}
	if want.Hex != "" && got != want {
		return v1.Hash{}, fmt.Errorf("the registry sent content with digest %s", got)
	}
	return got, nil
}

func parseIndex(m manifest) ([]v1.Descriptor, error) {
	var index v1.IndexManifest
	if err := decode(m, &index); err != nil {
		return nil, err
	}
	return index.Manifests, checkDescriptors(m, index.Manifests)
}

// decode parses a manifest. All errors identify the manifest.
func decode(m manifest, into any) error {
	if err := json.Unmarshal(m.raw, into); err != nil {
		return fmt.Errorf("manifest %s: not valid: %w", m.desc.Digest, err)
	}
	return nil
}

func checkDescriptors(m manifest, list []v1.Descriptor) error {
	for _, d := range list {
		if d.Digest.Hex == "" || d.Size < 0 || d.Size > maxBlobSize {
			return fmt.Errorf("manifest %s: not valid: a descriptor has no digest or has size %d", m.desc.Digest, d.Size)
		}
	}
	return nil
}

// manifestMediaType returns the media type of a manifest. Header and content must agree,
// because a document that one reader treats as an image and another as an index can be
// used in an attack (CVE-2021-41190).
func manifestMediaType(header string, raw []byte) (types.MediaType, error) {
	var doc struct {
		MediaType string            `json:"mediaType"`
		Manifests []json.RawMessage `json:"manifests"`
		Layers    []json.RawMessage `json:"layers"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return "", fmt.Errorf("not a manifest: %w", err)
	}
	mt, _, err := mime.ParseMediaType(header)
	if err != nil {
		mt = doc.MediaType
	}
	if doc.MediaType != "" && doc.MediaType != mt {
		return "", fmt.Errorf("the registry's content type is %q, but the manifest's media type is %q", mt, doc.MediaType)
	}
	kind := types.MediaType(mt)
	switch {
	case kind.IsIndex() && doc.Layers == nil, kind.IsImage() && doc.Manifests == nil:
		return kind, nil
	case kind.IsSchema1():
		return "", fmt.Errorf("media type %q is a pre-2016 Docker image format that runtimes no longer support: push the image again with a newer tool", mt)
	}
	return "", fmt.Errorf("media type %q is neither an image manifest nor an image index", mt)
}
