// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cmd_test

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/must"
)

// releasedPrograms lists the programs of a release.
var releasedPrograms = strings.Fields(`acr-credential-provider auth-provider-gcp docker-credential-regcred dockerconfig-credential-provider
	ecr-credential-provider regcred regcred-controller regcred-credential-provider static-credential-provider token-credential-provider`)

// newReleaseCheckout creates a checkout with tiny programs, and with this repository's
// release.sh and image builder.
func newReleaseCheckout(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("releases are built on Linux")
	}
	for _, tool := range []string{"bash", "git", "jq", "zip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	files := map[string]string{
		"LICENSE":                 "licence\n",
		"README.md":               "read me\n",
		"deploy/a/b":              "for nodes\n",
		"docs/playground/main.go": tinyPlayground,
		"deploy/kubectl/script":   "#!/bin/sh\n",
	}
	for _, name := range releasedPrograms {
		files["cmd/"+name+"/main.go"] = "package main\n\nvar version string\n\nfunc main() { println(version) }\n"
	}
	for _, pattern := range []string{"release.sh", "go.mod", "go.sum", "deploy/kubectl/krew.yaml", "deploy/chart/*.yaml", "deploy/charts/*/*.yaml", "deploy/manifests/*.yaml", "internal/image/*.go", "internal/image/build/*.go"} {
		copyRealProgram(t, files, pattern)
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		must.Do(t, os.WriteFile(path, []byte(text), mode))
	}
	runBash(t, dir, "git init -q && git add -A && git -c user.name=a -c user.email=a@example.test commit -qm begin")
	return dir
}

// copyRealProgram adds this repository's files that match a pattern, except tests, to files.
func copyRealProgram(t *testing.T, files map[string]string, pattern string) {
	t.Helper()
	paths, err := filepath.Glob("../" + pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files match %s, %v", len(paths), pattern, err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		content := must.Get(os.ReadFile(path))(t)
		files[strings.TrimPrefix(path, "../")] = string(content)
	}
}

func runBash(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// TestReleaseIsReproducible checks that the clone's age and depth, the user and the
// machine's settings do not affect the release.
func TestReleaseIsReproducible(t *testing.T) {
	dir := newReleaseCheckout(t)
	other := filepath.Join(t.TempDir(), "a longer name")
	runBash(t, dir, "git clone -q . '"+other+"'")
	runBash(t, dir, "export GOENV=off; umask 022; LC_ALL=C ./release.sh v1.2.3 dist linux/amd64 windows/amd64")
	begin := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	must.Do(t, os.Chtimes(filepath.Join(other, "LICENSE"), begin, begin))
	runBash(t, other, `git tag v1.2.3; umask 077
		printf 'GOFLAGS=-buildvcs=true\nGOEXPERIMENT=nogreenteagc\n' >../goenv
		export GOENV=$PWD/../goenv LC_ALL=C.UTF-8 TZ=Asia/Tokyo GZIP=-1 TAR_OPTIONS=--owner=7 ZIPOPT=-0 GOAMD64=v3 TMPDIR=$PWD/../tmp; mkdir "$TMPDIR"
		./release.sh v1.2.3 deep/dist linux/amd64 windows/amd64`)
	runBash(t, dir, "cmp dist/SHA256SUMS '"+other+"/deep/dist/SHA256SUMS' && cd dist && sha256sum -c SHA256SUMS && test $(wc -l <SHA256SUMS) = 8")
	runBash(t, dir, `cd dist && tar -xzf *_linux_amd64.tar.gz && cd *_linux_amd64 && test "$(stat -c %a deploy deploy/a deploy/a/b deploy/kubectl/script | tr '\n' ' ')" = '755 755 644 755 ' &&
		test -x regcred && ! zip -sf ../*_windows_*.zip | grep deploy`)
	runBash(t, dir, `cd dist && tar -xzf regcred-playground_1.2.3.tar.gz && cd regcred-playground_1.2.3 && test "$(ls | tr '\n' ' ')" = 'LICENSE index.html ' &&
		test "$(cat index.html)" = v1.2.3`)
	runBash(t, dir, `cd dist && tar -xzf regcred-chart_1.2.3.tgz && cd regcred && grep -qx 'version: 1.2.3' Chart.yaml && grep -qx 'appVersion: v1.2.3' Chart.yaml &&
		test -s values.yaml && test -s LICENSE && grep -q 'regcred:v1.2.3"$' ../*_linux_amd64/deploy/manifests/regcred.yaml && ! grep -r 'v0[.]0[.]0' . ../*_linux_amd64/deploy`)
	checkKrew(t, filepath.Join(dir, "dist"))
	checkImage(t, filepath.Join(dir, "dist"))
}

// tinyPlayground is a program that writes a site, like docs/playground.
const tinyPlayground = `package main

import (
	"flag"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("o", "", "")
	version := flag.String("version", "", "")
	flag.Parse()
	os.MkdirAll(*dir, 0o755)
	os.WriteFile(filepath.Join(*dir, "index.html"), []byte(*version), 0o600)
}
`

// checkKrew checks that the krew manifest lists the existing archives with their
// checksums, and files that they contain.
func checkKrew(t *testing.T, dist string) {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(dist, "regcred.yaml")))(t)
	var manifest struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description string
			Platforms                                        []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	must.Do(t, yaml.UnmarshalStrict(data, &manifest))
	if manifest.Metadata.Name != "regcred" || manifest.Spec.Version != "v1.2.3" || len(manifest.Spec.Platforms) != 2 {
		t.Errorf("got %+v", manifest)
	}
	for _, p := range manifest.Spec.Platforms {
		archive, err := os.ReadFile(filepath.Join(dist, path.Base(p.URI)))
		if err != nil {
			t.Error(err)
		}
		if got := sha256Sum(archive); got != p.SHA256 || !strings.HasSuffix(p.URI, "/v1.2.3/"+path.Base(p.URI)) {
			t.Errorf("%s has the sum %s, and the manifest says %s", p.URI, got, p.SHA256)
		}
		for _, f := range p.Files {
			if list := archiveContents(t, filepath.Join(dist, path.Base(p.URI))); !strings.Contains(list, f.From+"\n") {
				t.Errorf("%s has no %s:\n%s", p.URI, f.From, list)
			}
		}
	}
}

// checkImage checks that the image contains the archive's programs, and that its build
// inputs are published with it.
func checkImage(t *testing.T, dist string) {
	t.Helper()
	runBash(t, dist, "mkdir ../layout && tar -xf regcred-image_1.2.3.tar -C ../layout")
	top := must.Get(layout.ImageIndexFromPath(filepath.Join(dist, "../layout")))(t)
	indexes, err := partial.FindIndexes(top, func(v1.Descriptor) bool { return true })
	if err != nil || len(indexes) != 1 {
		t.Fatalf("%d indexes, %v", len(indexes), err)
	}
	images, err := partial.FindImages(indexes[0], func(d v1.Descriptor) bool { return d.Platform.OS == "linux" })
	if err != nil || len(images) != 1 {
		t.Fatalf("%d images, %v", len(images), err)
	}
	boms, err := partial.FindImages(indexes[0], func(d v1.Descriptor) bool { return d.Platform.OS == "unknown" })
	if err != nil || len(boms) != 1 {
		t.Fatalf("%d lists of modules, %v", len(boms), err)
	}
	for i, image := range images {
		config := must.Get(image.ConfigFile())(t)
		name := "regcred_1.2.3_linux_" + config.Architecture
		runBash(t, dist, "mkdir -p ../archives && tar -xzf "+name+".tar.gz -C ../archives")
		if err := validate.Image(image); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(archivedChecksums(t, filepath.Join(dist, "../archives", name)), imageChecksums(t, image)); diff != "" {
			t.Errorf("%s (-archive +image):\n%s", name, diff)
		}
		layers, err := boms[i].Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%d layers, %v", len(layers), err)
		}
		file := must.Get(os.ReadFile(filepath.Join(dist, name+".cdx.json")))(t)
		if digest, err := layers[0].Digest(); err != nil || digest.Hex != sha256Sum(file) {
			t.Errorf("%s.cdx.json is not what is beside the image, %s (%v)", name, digest, err)
		}
	}
}

func sha256Sum(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// archivedChecksums returns the checksums of the files in an unpacked archive that are also in the
// image.
func archivedChecksums(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range append(slices.Clone(releasedPrograms), "LICENSE") {
		content := must.Get(os.ReadFile(filepath.Join(dir, name)))(t)
		if name != "docker-credential-regcred" {
			files[name] = sha256Sum(content)
		}
	}
	return files
}

// imageChecksums returns the checksums of an image's files, by name.
func imageChecksums(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	files := map[string]string{}
	content := mutate.Extract(image)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || h.Name == "etc/passwd" {
			continue
		}
		data := must.Get(io.ReadAll(r))(t)
		files[path.Base(h.Name)] = sha256Sum(data)
	}
}

// archiveContents lists the files in an archive, one per line.
func archiveContents(t *testing.T, archive string) string {
	t.Helper()
	command := []string{"tar", "-tzf", archive}
	if strings.HasSuffix(archive, ".zip") {
		command = []string{"zip", "-sf", archive}
	}
	out := must.Get(exec.Command(command[0], command[1:]...).Output())(t)
	return string(out)
}

// TestReleaseRefuses checks that the release script reports errors before it builds
// anything, and that a failed run does not block the next one.
func TestReleaseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, before, args, want string }{
		{"a changed file", "echo >>README.md", "v1.2.3 dist", "not clean"},
		{"a new file", "echo >cmd/regcred/new.go", "v1.2.3 dist", "cmd/regcred/new.go"},
		{"a tag elsewhere", "git tag v1.2.3 $(git commit-tree -m other HEAD^{tree})", "v1.2.3 dist", "another commit"},
		{"something there", "mkdir ../full; echo >../full/x", "v1.2.3 ../full", "not an empty directory"},
		{"no version", "true", "1.2.3 dist", "VERSION OUTDIR"},
		{"a platform that is none", "true", "v1.2.3 dist linux/none", "unsupported GOOS/GOARCH"},
		{"a missing tool", "mkdir ../bin; for t in bash git go sed dirname; do ln -s $(command -v $t) ../bin/; done; export PATH=$PWD/../bin", "v1.2.3 dist", "jq is not installed"},
		{"no checkout", "rm -rf .git", "v1.2.3 dist", "not a checkout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := newReleaseCheckout(t)
			cmd := exec.Command("bash", "-c", "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a; "+
				tt.before+" && ./release.sh "+tt.args)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("%v, and no %q in:\n%s", err, tt.want, out)
			}
			left, err := filepath.Glob(filepath.Join(dir, "dist"))
			hidden, err2 := filepath.Glob(filepath.Join(dir, ".release*"))
			if err != nil || err2 != nil || len(left)+len(hidden) > 0 {
				t.Errorf("%q and %q are left (%v, %v)", left, hidden, err, err2)
			}
		})
	}
}
