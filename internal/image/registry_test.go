// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package image

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testenv"
)

// startRegistry starts Debian's docker-registry on a free port of loopback.
func startRegistry(t *testing.T) (host string) {
	t.Helper()
	if _, err := exec.LookPath("docker-registry"); err != nil {
		testenv.SkipUnlessAvailable(t, "docker-registry", "docker-registry is not installed: Debian's package of that name has it")
	}
	host = testenv.FreeAddr(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "registry.yml")
	writeFile(t, config, fmt.Appendf(nil, "version: 0.1\nlog: {level: info}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s}\n", filepath.Join(dir, "storage"), host), 0o600)
	cmd := exec.CommandContext(t.Context(), "docker-registry", "serve", config)
	log := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "listening on") {
			go func() {
				for lines.Scan() { // otherwise the program would block on a full pipe
				}
			}()
			return host
		}
	}
	t.Fatal("docker-registry ended before it listened")
	return ""
}

// TestPush verifies a push by go-containerregistry to Debian's docker-registry. That registry has
// no referrers API, so clients find the SBOM by its fallback tag.
func TestPush(t *testing.T) {
	repo := startRegistry(t) + "/team/regcred"
	_, index := fakeIndex(t)
	must.Do(t, remote.WriteIndex(newTag(t, repo), index, remote.WithContext(t.Context())))
	checkPushed(t, repo, index)
	manifest := must.Get(index.IndexManifest())(t)
	image := newTag(t, repo).Context().Digest(manifest.Manifests[0].Digest.String())
	referrers := must.Get(remote.Referrers(image, remote.WithContext(t.Context())))(t)
	found := must.Get(referrers.IndexManifest())(t)
	if len(found.Manifests) != 1 || found.Manifests[0].Digest != manifest.Manifests[2].Digest || found.Manifests[0].ArtifactType != SBOMMediaType {
		t.Errorf("got %+v, want %s", found.Manifests, manifest.Manifests[2].Digest)
	}
}

// TestSkopeo verifies that skopeo copies the whole archive to Debian's docker-registry and back,
// and that the digest does not change.
func TestSkopeo(t *testing.T) {
	if _, err := exec.LookPath("skopeo"); err != nil {
		testenv.SkipUnlessAvailable(t, "skopeo", "skopeo is not installed: Debian's package of that name has it")
	}
	host, dir := startRegistry(t), t.TempDir()
	repo := host + "/team/regcred"
	release, index := fakeIndex(t)
	archive := filepath.Join(dir, "regcred-image.tar")
	file := must.Get(os.Create(archive))(t)
	defer file.Close()
	must.Do(t, WriteArchive(file, release, index))
	digest := must.Get(index.Digest())(t)
	skopeo := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "skopeo", append([]string{"--insecure-policy", "copy", "--all"}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("skopeo %q: %v\n%s", args, err, said)
		}
	}
	skopeo("--dest-tls-verify=false", "oci-archive:"+archive, "docker://"+repo+":v1.2.3")
	checkPushed(t, repo, index)
	back := filepath.Join(dir, "back")
	skopeo("--src-tls-verify=false", "docker://"+repo+"@"+digest.String(), "oci:"+back+":v1.2.3")
	top := must.Get(layout.ImageIndexFromPath(back))(t)
	read := must.Get(top.ImageIndex(digest))(t)
	manifest := must.Get(read.IndexManifest())(t)
	checkSBOM(t, read, manifest.Manifests[3], manifest.Manifests[1], fakeSBOM+"arm64")
}

func newTag(t *testing.T, repo string) name.Tag {
	t.Helper()
	return must.Get(name.NewTag(repo + ":v1.2.3"))(t)
}

// checkPushed checks that the registry has the image under its digest for both platforms.
func checkPushed(t *testing.T, repo string, want v1.ImageIndex) {
	t.Helper()
	digest := must.Get(want.Digest())(t)
	manifest := must.Get(want.IndexManifest())(t)
	for i, arch := range []string{"amd64", "arm64"} {
		got, err := remote.Get(newTag(t, repo), remote.WithContext(t.Context()), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		if got.Digest != digest {
			t.Errorf("the tag is %s, want %s", got.Digest, digest)
		}
		image := must.Get(got.Image())(t)
		if h, err := image.Digest(); err != nil || h != manifest.Manifests[i].Digest {
			t.Errorf("%s: %v, %v", arch, h, err)
		}
	}
}
