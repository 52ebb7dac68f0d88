// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package platform

import (
	"encoding/json"
	"fmt"
	"mime"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

// MediaType returns the media type of an image manifest or an index. Header and content must agree,
// because a document that one reader treats as an image and another as an index can be
// used in an attack (CVE-2021-41190).
func MediaType(contentType string, raw []byte) (types.MediaType, error) {
	var doc struct {
		MediaType string            `json:"mediaType"`
		Manifests []json.RawMessage `json:"manifests"`
		Layers    []json.RawMessage `json:"layers"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return "", fmt.Errorf("not a manifest: %w", err)
	}
	mt, _, err := mime.ParseMediaType(contentType)
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
