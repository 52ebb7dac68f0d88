// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"maps"
	"runtime"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Push pushes an image and returns its reference.
func (r *Registry) Push(t testing.TB, repo, tag string, image v1.Image) (reference string) {
	t.Helper()
	reference = r.Host + "/" + repo + ":" + tag
	pushImage(t, reference, image, r.pushOptions()...)
	return reference
}

// ProgramsImage returns an image with programs in its root directory, keyed by file name,
// and no entrypoint.
func ProgramsImage(t testing.TB, programs map[string]string) v1.Image {
	t.Helper()
	image := empty.Image
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		layer, err := programLayer(programs[name], name)
		if err != nil {
			t.Fatal(err)
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			t.Fatal(err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}
