// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Limits for an index: its depth, the number of manifests below it, and their total
// size in bytes.
const (
	maxIndexDepth     = 4
	maxIndexManifests = 1000
	maxManifestsSize  = 64 << 20
)

// plan lists everything that a pull must store.
type plan struct {
	root      v1.Descriptor // descriptor to list in index.json
	resolved  v1.Hash       // digest that the reference resolved to
	blobs     []blob        // without duplicates, in the order of the manifests
	manifests []manifest    // without duplicates, children before parents

	want        platform
	forPlatform bool // the image was selected from an index for the platform

	sizes            map[v1.Hash]int64         // sizes of blobs
	fetchedManifests map[v1.Hash]v1.Descriptor // descriptors of fetched manifests
	manifestsSize    int                       // bytes of manifests
}

// blob is a layer or a configuration.
type blob struct {
	v1.Descriptor
	config bool
}

// newPlan fetches the manifests and returns what to store.
func (s *session) newPlan(ctx context.Context, want platform) (*plan, error) {
	top, err := s.fetchManifest(ctx, s.target.ref.Identifier())
	if err != nil {
		return nil, err
	}
	pl := &plan{root: top.desc, resolved: top.desc.Digest, want: want, forPlatform: want.all,
		sizes: map[v1.Hash]int64{}, fetchedManifests: map[v1.Hash]v1.Descriptor{}}
	if top.desc.MediaType.IsIndex() && !want.all {
		if top, err = s.selectManifest(ctx, top, want); err != nil {
			return nil, err
		}
		pl.root, pl.forPlatform = top.desc, true
	}
	if err := s.addManifest(ctx, pl, top, 0); err != nil {
		return nil, err
	}
	return pl, nil
}

// selectManifest returns the first image in an index that matches the platform.
func (s *session) selectManifest(ctx context.Context, index manifest, want platform) (manifest, error) {
	children, err := parseIndex(index)
	if err != nil {
		return manifest{}, err
	}
	var exist []string
	for _, d := range children {
		if d.Platform == nil || !d.MediaType.IsImage() {
			continue
		}
		if want.matches(*d.Platform) {
			return s.fetchChild(ctx, d)
		}
		if d.Platform.OS != "unknown" { // attestations have the platform unknown/unknown
			exist = append(exist, d.Platform.String())
		}
	}
	return manifest{}, fmt.Errorf("no image for platform %s; available: %s", want, cmp.Or(strings.Join(exist, ", "), "none"))
}

func (s *session) fetchChild(ctx context.Context, d v1.Descriptor) (manifest, error) {
	m, err := s.fetchManifest(ctx, d.Digest.String())
	if err != nil {
		return manifest{}, err
	}
	m.desc.Platform = d.Platform
	return m, checkChild(m.desc, d)
}

// checkChild compares a fetched manifest with its descriptor in the index.
func checkChild(got, listed v1.Descriptor) error {
	if got.MediaType != listed.MediaType || got.Size != listed.Size {
		return fmt.Errorf("manifest %s: the index lists %q with %d bytes, but the registry sent %q with %d bytes",
			listed.Digest, listed.MediaType, listed.Size, got.MediaType, got.Size)
	}
	return nil
}

// addManifest adds a manifest and everything below it to the plan.
func (s *session) addManifest(ctx context.Context, pl *plan, m manifest, depth int) error {
	if pl.manifestsSize += len(m.raw); pl.manifestsSize > maxManifestsSize {
		return fmt.Errorf("the manifests together exceed %d bytes", maxManifestsSize)
	}
	pl.fetchedManifests[m.desc.Digest] = m.desc
	if m.desc.MediaType.IsImage() {
		return pl.addImage(m)
	}
	if depth == maxIndexDepth {
		return fmt.Errorf("manifest %s: indexes are nested more than %d levels deep", m.desc.Digest, maxIndexDepth)
	}
	children, err := parseIndex(m)
	if err != nil {
		return err
	}
	for _, d := range children {
		if err := s.addChild(ctx, pl, d, depth+1); err != nil {
			return err
		}
	}
	pl.manifests = append(pl.manifests, m)
	return nil
}

// addChild adds a manifest listed in an index, unless it is already in the plan.
func (s *session) addChild(ctx context.Context, pl *plan, d v1.Descriptor, depth int) error {
	if got, ok := pl.fetchedManifests[d.Digest]; ok {
		return checkChild(got, d)
	}
	if len(pl.fetchedManifests) > maxIndexManifests {
		return fmt.Errorf("the index has more than %d manifests: pull only one platform", maxIndexManifests)
	}
	child, err := s.fetchChild(ctx, d)
	if err != nil {
		return err
	}
	return s.addManifest(ctx, pl, child, depth)
}

func (pl *plan) addImage(m manifest) error {
	var image v1.Manifest
	if err := decodeManifest(m, &image); err != nil {
		return err
	}
	if err := checkDescriptors(m, append(image.Layers, image.Config)); err != nil {
		return err
	}
	blobs := []blob{{image.Config, true}}
	for _, d := range image.Layers {
		blobs = append(blobs, blob{d, false})
	}
	for _, b := range blobs {
		if err := pl.addBlob(b); err != nil {
			return fmt.Errorf("manifest %s: %w", m.desc.Digest, err)
		}
	}
	pl.manifests = append(pl.manifests, m)
	return nil
}

func (pl *plan) addBlob(b blob) error {
	size, ok := pl.sizes[b.Digest]
	switch {
	case !ok:
		pl.sizes[b.Digest] = b.Size
		pl.blobs = append(pl.blobs, b)
	case size != b.Size:
		return fmt.Errorf("not valid: blob %s is listed with two sizes, %d and %d bytes", b.Digest, size, b.Size)
	}
	return nil
}

// allPlatforms is the value of [Puller.Platform] for a whole index.
const allPlatforms = "all"

type platform struct {
	all bool
	v1.Platform
}

// CheckPlatform returns an error if s is not a valid [Puller.Platform].
func CheckPlatform(s string) error {
	_, err := parsePlatform(s)
	return err
}

func parsePlatform(s string) (platform, error) {
	switch s {
	case allPlatforms:
		return platform{all: true}, nil
	case "":
		s = "linux/" + runtime.GOARCH
	}
	p, err := v1.ParsePlatform(s)
	if err != nil || p.OS == "" || p.Architecture == "" {
		return platform{}, fmt.Errorf("platform %q is neither os/architecture[/variant] nor %q, e.g. linux/arm64", s, allPlatforms)
	}
	return platform{Platform: normalizePlatform(*p)}, nil
}

// normalizePlatform removes a redundant variant, because arm64 is always v8.
func normalizePlatform(p v1.Platform) v1.Platform {
	if p.Architecture == "arm64" && p.Variant == "v8" {
		p.Variant = ""
	}
	return p
}

func (p platform) matches(have v1.Platform) bool {
	return p.all || normalizePlatform(have).Satisfies(p.Platform)
}
