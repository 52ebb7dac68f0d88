// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/regcred/regcred/internal/must"
)

// app and the following constants are the content of the registries.
const (
	appRepository    = "team/app:v1"      // an image
	chartRepository  = "team/chart:1.0.0" // a Helm chart
	policyRepository = "team/policy:v1"   // a policy for conftest

	cueModule  = "team/" + cueLibrary + ":v0.0.1"
	cueLibrary = "lib.example/lib"
)

// pushImages uploads the content through the registry at host. All registries share one storage.
func (s *testSite) pushImages(t *testing.T, host string) {
	t.Helper()
	for ref, image := range map[string]v1.Image{appRepository: appImage(t), chartRepository: chartArtifact(t), policyRepository: policyArtifact(t), cueModule: cueArtifact(t)} {
		tag := must.Get(name.NewTag(host + "/" + ref))(t)
		if err := remote.Write(tag, image, remote.WithTransport(s.transport), remote.WithContext(t.Context())); err != nil {
			t.Fatalf("pushing %s: %v", tag, err)
		}
	}
}

func appImage(t *testing.T) v1.Image {
	t.Helper()
	layer := must.Get(tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(newArchive(t, "app", "an app"))), nil
	}))(t)
	config := &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH}
	image := must.Get(mutate.ConfigFile(empty.Image, config))(t)
	return withLayers(t, image, mutate.Addendum{Layer: layer})
}

func chartArtifact(t *testing.T) v1.Image {
	t.Helper()
	content := newArchive(t, "chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n")
	return newArtifact(t, "application/vnd.cncf.helm.config.v1+json", mutate.Addendum{
		Layer: static.NewLayer(content, "application/vnd.cncf.helm.chart.content.v1.tar+gzip"),
	})
}

func policyArtifact(t *testing.T) v1.Image {
	t.Helper()
	return newArtifact(t, "application/vnd.cncf.openpolicyagent.config.v1+json", mutate.Addendum{
		Layer:       static.NewLayer([]byte("package main\n"), "application/vnd.cncf.openpolicyagent.policy.layer.v1+rego"),
		Annotations: map[string]string{"org.opencontainers.image.title": "policy.rego"},
	})
}

const cueModuleFile = `module: "` + cueLibrary + `@v0"
language: version: "v0.9.0"
`

func cueArtifact(t *testing.T) v1.Image {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for name, content := range map[string]string{"cue.mod/module.cue": cueModuleFile, "lib.cue": "package lib\n\nanswer: 42\n"} {
		file := must.Get(w.Create(name))(t)
		must.Do(t, writeTables(file, content))
	}
	must.Do(t, w.Close())
	return newArtifact(t, "application/vnd.cue.module.v1+json",
		mutate.Addendum{Layer: static.NewLayer(buf.Bytes(), "application/zip")},
		mutate.Addendum{Layer: static.NewLayer([]byte(cueModuleFile), "application/vnd.cue.modulefile.v1")})
}

// newArtifact returns an image manifest whose layers are not file systems.
func newArtifact(t *testing.T, config types.MediaType, layers ...mutate.Addendum) v1.Image {
	t.Helper()
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), config)
	return withLayers(t, image, layers...)
}

func withLayers(t *testing.T, image v1.Image, layers ...mutate.Addendum) v1.Image {
	t.Helper()
	image = must.Get(mutate.Append(image, layers...))(t)
	return image
}

// newArchive returns a gzip-compressed tar archive that contains one file.
func newArchive(t *testing.T, name, content string) []byte {
	t.Helper()
	var buf bytes.Buffer
	gz := gzip.NewWriter(&buf)
	w := tar.NewWriter(gz)
	must.Do(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
	for _, err := range []error{writeTables(w, content), w.Close(), gz.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes()
}

func writeTables(w io.Writer, content string) error {
	_, err := io.WriteString(w, content)
	return err
}
