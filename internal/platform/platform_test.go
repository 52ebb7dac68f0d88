// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package platform

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// TestContainersImage verifies which descriptor of an index containers/image selects (chooseInstance in
// its internal/manifest). upstream/login compares the rules of containerd with containerd.
func TestContainersImage(t *testing.T) {
	const none = "none" // a descriptor without a platform
	for _, tt := range []struct {
		list   string // platforms
		want   string
		docker string // selected from a Docker manifest list; "" means no descriptor
		oci    string // selected from an OCI index
	}{
		{"linux/amd64/v3 linux/amd64", "linux/amd64", "linux/amd64", "linux/amd64"},
		{"linux/amd64/v3", "linux/amd64", "", ""},
		{"linux/386", "linux/amd64", "", ""},
		{"linux/x86_64", "linux/amd64", "", ""},
		{"none linux/amd64", "linux/amd64", "linux/amd64", "linux/amd64"},
		{"linux/s390x none", "linux/amd64", "", none},
		{"linux/arm/v5 linux/arm/v7 linux/arm/v6", "linux/arm", "linux/arm/v7", "linux/arm/v7"},
		{"linux/arm/v5 linux/arm linux/arm/v6", "linux/arm", "linux/arm", "linux/arm"},
		{"linux/arm/v8 linux/arm/v5 linux/arm/v6", "linux/arm/v7", "linux/arm/v6", "linux/arm/v6"},
		{"linux/arm64/v9 linux/arm64/v8", "linux/arm64", "linux/arm64/v8", "linux/arm64/v8"},
		{"linux/riscv64/x linux/riscv64", "linux/riscv64/y", "linux/riscv64", "linux/riscv64"},
	} {
		var list []v1.Descriptor
		for _, text := range strings.Fields(tt.list) {
			d := v1.Descriptor{MediaType: types.OCIManifestSchema1}
			if text != none {
				d.Platform, _ = v1.ParsePlatform(text)
			}
			list = append(list, d)
		}
		want, _ := v1.ParsePlatform(tt.want)
		for index, expected := range map[types.MediaType]string{types.DockerManifestList: tt.docker, types.OCIImageIndex: tt.oci} {
			got := ""
			if d, ok := ContainersImage.best(index, list, *want); ok && d.Platform == nil {
				got = none
			} else if ok {
				got = d.Platform.String()
			}
			if got != expected {
				t.Errorf("%s from %s %s: got %q, want %q", tt.want, index, tt.list, got, expected)
			}
		}
	}
}

// TestManyPlatforms verifies that an index with many platforms neither takes long nor leads to a long error.
func TestManyPlatforms(t *testing.T) {
	var list listedIndex
	for i := range 40_000 {
		list = append(list, v1.Descriptor{MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: "linux", Architecture: fmt.Sprintf("arch%d", i)}})
	}
	began := time.Now()
	_, err := Containerd.Select(t.Context(), v1.Descriptor{MediaType: types.OCIImageIndex}, v1.Platform{OS: "linux", Architecture: "amd64"}, list)
	if took := time.Since(began); err == nil || len(err.Error()) > 2000 || took > 5*time.Second {
		t.Errorf("got %v after %s", err, took)
	}
}

// listedIndex is the source of a single index.
type listedIndex []v1.Descriptor

func (l listedIndex) Index(context.Context, v1.Descriptor) ([]v1.Descriptor, error) { return l, nil }
func (listedIndex) ConfigPlatform(context.Context, v1.Descriptor) (v1.Platform, error) {
	return v1.Platform{}, errors.New("not called")
}
