// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/platform"
)

// generatedIndex is an index with everything below it.
type generatedIndex struct {
	Root  v1.Descriptor `json:"Index"`
	Blobs map[string][]byte
	Want  v1.Platform
}

// Index implements [platform.Source].
func (g generatedIndex) Index(_ context.Context, d v1.Descriptor) ([]v1.Descriptor, error) {
	var index v1.IndexManifest
	err := json.Unmarshal(g.Blobs[d.Digest.String()], &index)
	return index.Manifests, err
}

// ConfigPlatform implements [platform.Source].
func (g generatedIndex) ConfigPlatform(_ context.Context, d v1.Descriptor) (have v1.Platform, err error) {
	return have, json.Unmarshal(g.Blobs[g.config(d)], &have)
}

// config returns the digest of an image's configuration.
func (g generatedIndex) config(d v1.Descriptor) string {
	var m v1.Manifest
	if json.Unmarshal(g.Blobs[d.Digest.String()], &m) != nil {
		return ""
	}
	return m.Config.Digest.String()
}

// add stores a document and returns its descriptor.
func (g generatedIndex) add(mediaType types.MediaType, doc any) v1.Descriptor {
	raw, _ := json.Marshal(doc)
	digest, size, _ := v1.SHA256(bytes.NewReader(raw))
	g.Blobs[digest.String()] = raw
	return v1.Descriptor{MediaType: mediaType, Digest: digest, Size: size}
}

var (
	systems       = []string{"linux", "linux", "linux", "linux", "linux", "windows", "Linux", "unknown", ""}
	architectures = []string{"amd64", "amd64", "x86_64", "386", "i386", "arm64", "arm64", "aarch64", "arm", "arm", "armhf", "armel", "s390x", "unknown", ""}
	variants      = []string{"", "", "", "v1", "v2", "v3", "v5", "v6", "v7", "7", "v8", "8", "v8.2", "v9", "V8"}
)

func randomPlatform(r *rand.Rand) v1.Platform {
	p := v1.Platform{OS: pickRandom(r, systems...), Architecture: pickRandom(r, architectures...), Variant: pickRandom(r, variants...)}
	if r.IntN(10) == 0 {
		p.OSVersion = "10.0.17763.1"
	}
	if r.IntN(10) == 0 {
		p.OSFeatures = []string{"a"}
	}
	return p
}

// randomIndex adds an index. Configurations have a serial number, so that all images differ.
func (g generatedIndex) randomIndex(r *rand.Rand, depth int) v1.Descriptor {
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	for range r.IntN(6) {
		var d v1.Descriptor
		switch n := r.IntN(20); {
		case n < 3 && depth < 3:
			d = g.randomIndex(r, depth+1)
		case n == 3:
			d = g.add("application/example", len(g.Blobs))
		default:
			p := randomPlatform(r)
			config := g.add(types.OCIConfigJSON, map[string]any{"os": p.OS, "architecture": p.Architecture, "variant": p.Variant, "n": len(g.Blobs)})
			d = g.add(types.OCIManifestSchema1, v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: []v1.Descriptor{}})
		}
		if r.IntN(5) > 0 {
			p := randomPlatform(r)
			d.Platform = &p
		}
		index.Manifests = append(index.Manifests, d)
	}
	return g.add(types.OCIImageIndex, index)
}

// TestPlatformsAtRandom compares the images that regcred and containerd select from generated indexes.
func TestPlatformsAtRandom(t *testing.T) {
	const indexes = 5000
	r := rand.New(rand.NewPCG(1, 2))
	run := containerdProgram(t, "platforms/main.go")
	in := must.Get(run.StdinPipe())(t)
	out := must.Get(run.StdoutPipe())(t)
	must.Do(t, run.Start())
	encoder, decoder := json.NewEncoder(in), json.NewDecoder(out)
	outcomes := map[string]int{}
	for range indexes {
		g := generatedIndex{Blobs: map[string][]byte{}, Want: v1.Platform{OS: "linux", Architecture: pickRandom(r, architectures[:13]...), Variant: pickRandom(r, variants...)}}
		g.Root = g.randomIndex(r, 0)
		must.Do(t, encoder.Encode(g))
		var theirs struct{ Config, Error string }
		must.Do(t, decoder.Decode(&theirs))
		d, err := platform.Containerd.Select(t.Context(), g.Root, g.Want, g)
		_, missing := errors.AsType[*platform.NoImageError](err)
		outcome := "image"
		switch {
		case strings.Contains(theirs.Error, "no match for platform"):
			outcome = "no image"
		case theirs.Error != "":
			outcome = "error"
		}
		outcomes[outcome]++
		if (err == nil) != (theirs.Error == "") || missing != (outcome == "no image") || err == nil && g.config(d) != theirs.Config {
			t.Fatalf("%s from %s\ncontainerd: %+v\nregcred: %+v, %v", g.Want, g.Blobs[g.Root.Digest.String()], theirs, d, err)
		}
	}
	in.Close()
	must.Do(t, run.Wait())
	t.Log(outcomes)
	for _, outcome := range []string{"image", "no image", "error"} {
		if outcomes[outcome] < indexes/200 {
			t.Errorf("only %d of the indexes end with %q", outcomes[outcome], outcome)
		}
	}
}
