// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testregistry

import (
	"cmp"
	"fmt"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image describes the image that [Server.Push] builds. Equal Images have equal digests.
// The zero value has two 4 KiB layers for linux on this machine's architecture.
type Image struct {
	Layers    int   // 0 means 2
	LayerSize int64 // random bytes per layer; 0 means 4096
	Seed      int64

	// Platforms lists the platforms, such as "linux/amd64" or "linux/arm64/v8". More
	// than one platform makes an image index.
	Platforms []string
}

// Push builds an image and returns its digest, "sha256:…". It writes directly to the
// storage and bypasses authentication, rules, faults and the access log.
func (s *Server) Push(repo, tag string, img Image) (digest string, err error) {
	ref, err := name.NewTag(fmt.Sprintf("%s/%s:%s", s.Addr(), repo, tag))
	if err != nil {
		return "", fmt.Errorf("pushing a test image: %w", err)
	}
	content, err := img.buildContent()
	if err != nil {
		return "", fmt.Errorf("pushing %s: building the image: %w", ref, err)
	}
	direct := remote.WithTransport(storageTransport{s.storage})
	switch c := content.(type) {
	case v1.Image:
		err = remote.Write(ref, c, direct)
	case v1.ImageIndex:
		err = remote.WriteIndex(ref, c, direct)
	}
	if err != nil {
		return "", fmt.Errorf("pushing %s: %w", ref, err)
	}
	hash, err := content.Digest()
	return hash.String(), err
}

// imageOrIndex is implemented by v1.Image and v1.ImageIndex.
type imageOrIndex interface{ Digest() (v1.Hash, error) }

func (i Image) buildContent() (imageOrIndex, error) {
	if len(i.Platforms) == 0 {
		i.Platforms = []string{"linux/" + runtime.GOARCH}
	}
	source := rand.NewSource(i.Seed)
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, text := range i.Platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return nil, err
		}
		img, err := i.buildForPlatform(*platform, source)
		if err != nil || len(i.Platforms) == 1 {
			return img, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: platform},
		})
	}
	return index, nil
}

func (i Image) buildForPlatform(p v1.Platform, source rand.Source) (v1.Image, error) {
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	for range cmp.Or(i.Layers, 2) {
		layer, err := random.Layer(cmp.Or(i.LayerSize, 4096), types.OCILayer, random.WithSource(source))
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = p.OS, p.Architecture, p.Variant
	return mutate.ConfigFile(img, config)
}

// storageTransport passes HTTP requests directly to the storage, without a network.
type storageTransport struct{ storage http.Handler }

func (t storageTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	w := httptest.NewRecorder()
	t.storage.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}
