// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package image

import (
	"archive/tar"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testelf"
)

// fakeOptions returns the options of an image whose programs consist only of ELF headers.
func fakeOptions(t *testing.T, arch string, mode fs.FileMode) BuildOptions {
	t.Helper()
	dir := t.TempDir()
	program := testelf.BuildFile(t, elf.ELFCLASS64, binary.LittleEndian, elfMachines[arch], "")
	for _, name := range append(slices.Concat(commandPrograms, pluginPrograms), "docker-credential-regcred", "SHA256SUMS") {
		writeFile(t, filepath.Join(dir, name), append(program, name...), mode)
	}
	license := filepath.Join(t.TempDir(), "a licence")
	writeFile(t, license, []byte("licence\n"), mode)
	return BuildOptions{
		Programs: []string{filepath.Join(dir, "none"), dir}, License: license,
		Platform: v1.Platform{OS: "linux", Architecture: arch},
		Release:  Release{Version: "v1.2.3", Revision: strings.Repeat("0123456789", 4), Created: time.Unix(1_000_000_000, 999)},
	}
}

func writeFile(t *testing.T, path string, content []byte, mode fs.FileMode) {
	t.Helper()
	must.Do(t, os.WriteFile(path, content, mode))
	must.Do(t, os.Chmod(path, mode))
}

func buildImage(t *testing.T, o BuildOptions) v1.Image {
	t.Helper()
	return must.Get(Build(o))(t)
}

// TestContents verifies that the image contains exactly the expected files, owned by root, with one time and in a fixed
// order.
func TestContents(t *testing.T) {
	image := buildImage(t, fakeOptions(t, "arm64", 0o700))
	var got []string
	content := mutate.Extract(image)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid+h.Gid != 0 || h.Uname+h.Gname != "" || !h.ModTime.Equal(time.Unix(1_000_000_000, 0)) {
			t.Errorf("%s: %+v", h.Name, h)
		}
		got = append(got, fmt.Sprintf("%o %s", h.Mode, h.Name))
	}
	want := []string{
		"644 LICENSE", "755 bin", "755 bin/regcred", "755 bin/regcred-controller", "755 bin/regcred-credential-provider", "755 etc", "644 etc/passwd", "755 plugins",
		"755 plugins/acr-credential-provider", "755 plugins/auth-provider-gcp", "755 plugins/dockerconfig-credential-provider",
		"755 plugins/ecr-credential-provider", "755 plugins/static-credential-provider", "755 plugins/token-credential-provider",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestConfig verifies the image's user, entrypoint and labels.
func TestConfig(t *testing.T) {
	image := buildImage(t, fakeOptions(t, "arm64", 0o755))
	got := must.Get(image.ConfigFile())(t)
	labels := map[string]string{
		"org.opencontainers.image.title":       "regcred",
		"org.opencontainers.image.description": "Credential provider plugins for kubelets, and the programs that install them on nodes",
		"org.opencontainers.image.version":     "v1.2.3",
		"org.opencontainers.image.revision":    "0123456789012345678901234567890123456789",
		"org.opencontainers.image.source":      "https://github.com/regcred/regcred",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.created":     "2001-09-09T01:46:40Z",
	}
	created := v1.Time{Time: time.Unix(1_000_000_000, 0).UTC()}
	want := &v1.ConfigFile{
		OS: "linux", Architecture: "arm64", Created: created,
		History: []v1.History{{Created: created, CreatedBy: "regcred v1.2.3"}},
		RootFS:  got.RootFS,
		Config:  v1.Config{Entrypoint: []string{"/bin/regcred"}, Env: []string{"PATH=/bin"}, WorkingDir: "/", User: "65532:65532", Labels: labels},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	manifest := must.Get(image.Manifest())(t)
	if diff := cmp.Diff(labels, manifest.Annotations); diff != "" {
		t.Error(diff)
	}
}

// TestSameBytes verifies that the image does not depend on the programs' location, modes and times.
func TestSameBytes(t *testing.T) {
	digest := func(o BuildOptions) string {
		h := must.Get(buildImage(t, o).Digest())(t)
		return h.String()
	}
	one := fakeOptions(t, "amd64", 0o755)
	other := fakeOptions(t, "amd64", 0o400)
	other.Release.Created = one.Release.Created.In(time.FixedZone("elsewhere", 3600))
	if digest(one) != digest(other) {
		t.Error("two images of the same programs are not the same")
	}
	other.Release.Version = "v1.2.4"
	if digest(one) == digest(other) {
		t.Error("images of two releases are the same")
	}
}

// TestBuildRefuses verifies that programs that could not run in the image are rejected.
func TestBuildRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, o *BuildOptions)
		want   string
	}{
		"a missing program": {func(t *testing.T, o *BuildOptions) {
			must.Do(t, os.Remove(filepath.Join(o.Programs[1], "auth-provider-gcp")))
		}, "CGO_ENABLED=0 go build ./cmd/auth-provider-gcp"},
		"another architecture": {func(_ *testing.T, o *BuildOptions) { o.Platform.Architecture = "arm64" }, "is a program for EM_X86_64, but the image is for linux/arm64"},
		"another system":       {func(_ *testing.T, o *BuildOptions) { o.Platform.OS = "windows" }, "only linux/amd64 and linux/arm64"},
		"no program": {func(t *testing.T, o *BuildOptions) {
			writeFile(t, filepath.Join(o.Programs[1], "regcred"), []byte("#!/bin/sh\n"), 0o755)
		}, "regcred is not a program for linux/amd64"},
		"a loader": {func(t *testing.T, o *BuildOptions) {
			dynamic := testelf.BuildFile(t, elf.ELFCLASS64, binary.LittleEndian, elf.EM_X86_64, "/lib64/ld-linux-x86-64.so.2")
			writeFile(t, filepath.Join(o.Programs[1], "ecr-credential-provider"), dynamic, 0o755)
		}, "ecr-credential-provider needs a dynamic loader"},
		"no licence": {func(_ *testing.T, o *BuildOptions) { o.License = "none" }, "open none"},
	} {
		t.Run(name, func(t *testing.T) {
			o := fakeOptions(t, "amd64", 0o755)
			tt.change(t, &o)
			if _, err := Build(o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestPrograms verifies that the image contains each program of the repository except
// docker-credential-regcred.
func TestPrograms(t *testing.T) {
	mains := must.Get(filepath.Glob("../../cmd/*/main.go"))(t)
	var want []string
	for _, path := range mains {
		if name := filepath.Base(filepath.Dir(path)); name != "docker-credential-regcred" {
			want = append(want, name)
		}
	}
	got := slices.Sorted(slices.Values(slices.Concat(commandPrograms, pluginPrograms)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
