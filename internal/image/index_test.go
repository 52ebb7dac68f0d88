// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package image

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/regcred/regcred/internal/must"
)

const fakeSBOM = `{"bomFormat": "CycloneDX"}`

// fakeIndex returns a release and its index for two platforms.
func fakeIndex(t *testing.T) (Release, v1.ImageIndex) {
	t.Helper()
	var parts []PlatformImage
	var release Release
	for _, arch := range []string{"amd64", "arm64"} {
		o := fakeOptions(t, arch, 0o755)
		release = o.Release
		parts = append(parts, PlatformImage{Image: buildImage(t, o), SBOM: []byte(fakeSBOM + arch)})
	}
	index := must.Get(BuildIndex(release, parts))(t)
	return release, index
}

// TestLayout verifies that go-containerregistry can read the written layout, with the images and
// SBOMs of both platforms.
func TestLayout(t *testing.T) {
	release, index := fakeIndex(t)
	dir := filepath.Join(t.TempDir(), "layout")
	must.Do(t, WriteLayout(dir, release, index))
	top := must.Get(layout.ImageIndexFromPath(dir))(t)
	names := must.Get(top.IndexManifest())(t)
	if len(names.Manifests) != 1 || names.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Fatalf("got %+v", names.Manifests)
	}
	read := must.Get(top.ImageIndex(names.Manifests[0].Digest))(t)
	manifest := must.Get(read.IndexManifest())(t)
	if diff := cmp.Diff(release.ociLabels(), manifest.Annotations); diff != "" {
		t.Error(diff)
	}
	var platforms []string
	for _, d := range manifest.Manifests {
		platforms = append(platforms, d.Platform.String())
		if d.ArtifactType != "" {
			t.Errorf("%s has an artifactType in the index, which some clients drop", d.Digest)
		}
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64", "unknown/unknown", "unknown/unknown"}, platforms); diff != "" {
		t.Fatal(diff)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		image := must.Get(read.Image(manifest.Manifests[i].Digest))(t)
		if err := validate.Image(image); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
		checkSBOM(t, read, manifest.Manifests[i+2], manifest.Manifests[i], fakeSBOM+arch)
	}
}

// checkSBOM checks the content of an SBOM in an index, and that its subject is the image.
func checkSBOM(t *testing.T, index v1.ImageIndex, d, subject v1.Descriptor, want string) {
	t.Helper()
	bom := must.Get(index.Image(d.Digest))(t)
	manifest := must.Get(bom.Manifest())(t)
	if manifest.ArtifactType != "application/vnd.cyclonedx+json" || manifest.Subject == nil || manifest.Subject.Digest != subject.Digest || manifest.Subject.Size != subject.Size {
		t.Errorf("got %+v, want the subject %s", manifest, subject.Digest)
	}
	layers, err := bom.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("got %d layers, %v", len(layers), err)
	}
	content := must.Get(layers[0].Compressed())(t)
	defer content.Close()
	if got, err := io.ReadAll(content); err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestArchiveSameBytes verifies that the archive does not depend on the directory for temporary files, the user and the
// time.
func TestArchiveSameBytes(t *testing.T) {
	write := func() []byte {
		t.Setenv("TMPDIR", t.TempDir())
		release, index := fakeIndex(t)
		var buf bytes.Buffer
		must.Do(t, WriteArchive(&buf, release, index))
		if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
			t.Errorf("%v are left, %v", left, err)
		}
		return buf.Bytes()
	}
	if !bytes.Equal(write(), write()) {
		t.Error("two archives of the same image are not the same")
	}
}
