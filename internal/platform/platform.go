// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package platform selects the image for a platform from an image index, as a container runtime
// does.
package platform

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/containerd/platforms"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	specs "github.com/opencontainers/image-spec/specs-go/v1"
)

// Rules are the rules of a runtime.
type Rules int

// The rules.
const (
	Containerd      Rules = iota // images.Manifest of containerd with platforms.Only
	ContainersImage              // ChooseInstance of containers/image, for CRI-O and podman
)

// Source reads what an index lists.
type Source interface {
	// Index returns the descriptors in an index.
	Index(context.Context, v1.Descriptor) ([]v1.Descriptor, error)
	// ConfigPlatform returns the platform in the configuration of an image.
	ConfigPlatform(context.Context, v1.Descriptor) (v1.Platform, error)
}

// maxIndexDepth limits how deep indexes may be nested.
const maxIndexDepth = 4

// NoImageError is returned if an index has no image for a platform.
type NoImageError struct {
	Want      v1.Platform
	Available []string // platforms in the index
}

// Error lists the available platforms.
func (e *NoImageError) Error() string {
	return fmt.Sprintf("no image for platform %s; available: %s", e.Want, cmp.Or(strings.Join(e.Available, ", "), "none"))
}

// Select returns the descriptor of the image that a runtime pulls for a platform. It returns a
// [*NoImageError] if the index has no such image. The descriptor has a platform, even if the index lists none.
func (r Rules) Select(ctx context.Context, index v1.Descriptor, want v1.Platform, source Source) (v1.Descriptor, error) {
	missing := &NoImageError{Want: want}
	for depth := 0; ; depth++ {
		if depth > maxIndexDepth {
			return v1.Descriptor{}, fmt.Errorf("manifest %s: indexes are nested more than %d levels deep", index.Digest, maxIndexDepth)
		}
		children, err := source.Index(ctx, index)
		if err != nil {
			return v1.Descriptor{}, err
		}
		missing.add(children)
		d, ok := r.best(index.MediaType, children, want)
		switch {
		case !ok:
			return v1.Descriptor{}, missing
		case d.MediaType.IsIndex():
			index = d
			continue
		case !d.MediaType.IsImage():
			return v1.Descriptor{}, fmt.Errorf("manifest %s: the index lists media type %q for platform %s, which is neither an image manifest nor an image index", d.Digest, d.MediaType, want)
		case d.Platform != nil:
			return d, nil
		}
		have, err := source.ConfigPlatform(ctx, d)
		if err != nil {
			return v1.Descriptor{}, err
		}
		d.Platform = &have
		if missing.add([]v1.Descriptor{d}); r == Containerd && !Matches(want, have) {
			return v1.Descriptor{}, missing
		}
		return d, nil
	}
}

// maxAvailable limits the platforms in an error.
const maxAvailable = 50

// add adds the platforms of descriptors to the available ones.
func (e *NoImageError) add(list []v1.Descriptor) {
	for _, d := range list {
		if len(e.Available) == maxAvailable {
			return
		}
		if d.Platform == nil || !d.MediaType.IsImage() && !d.MediaType.IsIndex() || d.Platform.OS == "unknown" { // attestations have the platform unknown/unknown
			continue
		}
		if text := d.Platform.String(); !slices.Contains(e.Available, text) {
			e.Available = append(e.Available, text)
		}
	}
}

// best returns the descriptor that the runtime follows. Descriptors without a platform come last.
func (r Rules) best(index types.MediaType, list []v1.Descriptor, want v1.Platform) (best v1.Descriptor, ok bool) {
	if r == Containerd {
		return bestForContainerd(list, want)
	}
	at := math.MaxInt
	for _, d := range list {
		if n := containersImageRank(index, d, want); n >= 0 && n < at {
			best, ok, at = d, true, n
		}
	}
	return best, ok
}

func bestForContainerd(list []v1.Descriptor, want v1.Platform) (v1.Descriptor, bool) {
	matcher := platforms.Only(spec(want))
	list = slices.DeleteFunc(slices.Clone(list), func(d v1.Descriptor) bool { return d.Platform != nil && !matcher.Match(spec(*d.Platform)) })
	sort.SliceStable(list, func(i, j int) bool { // with containerd's function, because Less is not a strict weak order
		if list[i].Platform == nil || list[j].Platform == nil {
			return list[i].Platform != nil
		}
		return matcher.Less(spec(*list[i].Platform), spec(*list[j].Platform))
	})
	if len(list) == 0 {
		return v1.Descriptor{}, false
	}
	return list[0], true
}

// containersImageVariants lists the variants that containers/image knows, best first.
var containersImageVariants = map[string][]string{"arm": {"v8", "v7", "v6", "v5"}, "arm64": {"v8"}}

// containersImageRank returns the preference of containers/image for a descriptor, 0 for the best,
// or -1. It compares names exactly. In a Docker manifest list, every image needs a platform.
func containersImageRank(index types.MediaType, d v1.Descriptor, want v1.Platform) int {
	variants, known := []string{""}, containersImageVariants[want.Architecture]
	switch at := slices.Index(known, want.Variant); {
	case want.Variant == "":
		variants = append(variants, known...)
	case at >= 0:
		variants = append(slices.Clone(known[at:]), "")
	default:
		variants = []string{want.Variant, ""}
	}
	switch {
	case d.Platform == nil && index == types.DockerManifestList:
		return -1
	case d.Platform == nil:
		return len(variants)
	case d.Platform.OS != want.OS || d.Platform.Architecture != want.Architecture:
		return -1
	}
	return slices.Index(variants, d.Platform.Variant)
}

// Matches reports whether containerd runs an image for the platform have on the platform want.
func Matches(want, have v1.Platform) bool { return platforms.Only(spec(want)).Match(spec(have)) }

// spec converts a platform. containerd runs on Linux nodes, and adds their operating system to a platform
// without one.
func spec(p v1.Platform) specs.Platform {
	return specs.Platform{OS: cmp.Or(p.OS, "linux"), Architecture: p.Architecture, Variant: p.Variant, OSVersion: p.OSVersion, OSFeatures: p.OSFeatures}
}
