// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build ignore

// Command platforms selects images from indexes with containerd's images.Manifest. It is built with
// containerd2.mod. It reads one JSON object per index, and writes one with the selected manifest.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// request is an index and everything below it.
type request struct {
	Index ocispec.Descriptor
	Blobs map[digest.Digest][]byte
	Want  ocispec.Platform
}

// ReaderAt implements content.Provider.
func (r request) ReaderAt(_ context.Context, d ocispec.Descriptor) (content.ReaderAt, error) {
	raw, ok := r.Blobs[d.Digest]
	if !ok {
		return nil, errdefs.ErrNotFound
	}
	return blob{bytes.NewReader(raw)}, nil
}

type blob struct{ *bytes.Reader }

func (b blob) Close() error { return nil }

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var r request
		switch err := in.Decode(&r); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			log.Fatal(err)
		}
		var response struct{ Config, Error string }
		m, err := images.Manifest(context.Background(), r, r.Index, platforms.Only(r.Want))
		if err != nil {
			response.Error = err.Error()
		} else {
			response.Config = m.Config.Digest.String()
		}
		if err := out.Encode(response); err != nil {
			log.Fatal(err)
		}
	}
}
