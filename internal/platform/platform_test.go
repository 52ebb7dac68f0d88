// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package platform

import (
	"strings"
	"testing"

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
