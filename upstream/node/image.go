// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// waiterImage returns an image that runs waiter. The label makes the image's digest unique. All of
// these images share a layer.
func waiterImage(label string) (v1.Image, error) {
	layer, err := programLayer(programPath("waiter"), "waiter")
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{"/waiter"}
	config.Config.Labels = map[string]string{"image": label}
	return mutate.ConfigFile(image, config)
}

// programLayer returns a layer with one executable file.
func programLayer(path, name string) (v1.Layer, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	})
}
