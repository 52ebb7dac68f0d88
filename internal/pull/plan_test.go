// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

func TestPlatforms(t *testing.T) {
	multi := []string{"linux/s390x", "linux/amd64", "linux/arm/v6", "linux/arm/v7", "linux/arm64/v8", "windows/amd64"}
	for _, tt := range []struct {
		name   string
		have   []string
		want   string
		took   string // Result.Platform
		layers int
		says   string // part of the error
	}{
		{"this one", append([]string{"plan9/mips"}, "linux/"+runtime.GOARCH), "", "linux/" + runtime.GOARCH, 2, ""},
		{"another", multi, "linux/s390x", "linux/s390x", 2, ""},
		{"variant", multi, "linux/arm/v7", "linux/arm/v7", 2, ""},
		{"no variant takes the first", multi, "linux/arm", "linux/arm/v6", 2, ""},
		{"arm64 is v8", multi, "linux/arm64", "linux/arm64/v8", 2, ""},
		{"v8 is arm64", []string{"linux/amd64", "linux/arm64"}, "linux/arm64/v8", "linux/arm64", 2, ""},
		{"all", multi, "all", "", 12, ""},
		{"missing", []string{"linux/amd64", "linux/arm64/v8"}, "linux/riscv64", "", 0, "no image for platform linux/riscv64; available: linux/amd64, linux/arm64/v8"},
		{"missing variant", multi, "linux/arm/v5", "", 0, "no image for platform linux/arm/v5; available: linux/s390x,"},
		{"one image", []string{"linux/s390x"}, "linux/s390x", "linux/s390x", 2, ""},
		{"one image, all", []string{"linux/s390x"}, "all", "", 2, ""},
		{"one image, another", []string{"linux/s390x"}, "linux/arm64", "", 0, "no image for platform linux/arm64; available: linux/s390x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reg, image, digest := startRegistryWith(t, testregistry.Options{}, testregistry.Image{Platforms: tt.have})
			p := &Puller{Platform: tt.want}
			if tt.says != "" {
				err := mustFail(t, p, image, nil, t.TempDir())
				if !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %q does not say %q", err, tt.says)
				}
				for _, r := range reg.Requests() {
					if strings.Contains(r.Path, "/blobs/") && len(tt.have) > 1 {
						t.Errorf("a blob was downloaded: %s", r.Path)
					}
				}
				return
			}
			dir := t.TempDir()
			res := mustPull(t, p, image, nil, dir)
			if res.Platform != tt.took || len(res.Layers) != tt.layers || res.Resolved != digest {
				t.Errorf("platform %q, %d layers, resolved %s, want %q, %d, %s", res.Platform, len(res.Layers), res.Resolved, tt.took, tt.layers, digest)
			}
			if whole := len(tt.have) == 1 || tt.want == "all"; whole != (res.Digest == digest) {
				t.Errorf("digest %s of %s", res.Digest, digest)
			}
			m := must.Get(v1.ParseIndexManifest(strings.NewReader(readTree(t, dir)["index.json"])))(t)
			got := ""
			if p := m.Manifests[0].Platform; p != nil {
				got = p.String()
			}
			if got != tt.took {
				t.Errorf("index.json says platform %q, want %q", got, tt.took)
			}
		})
	}
}

// putManifest uploads a manifest unchanged.
func putManifest(t *testing.T, reg *testregistry.Server, tag, mediaType string, raw []byte) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), "PUT", reg.URL()+"/v2/team/app/manifests/"+tag, bytes.NewReader(raw)))(t)
	req.Header.Set("Content-Type", mediaType)
	resp := must.Get(http.DefaultClient.Do(req))(t)
	resp.Body.Close()
	if resp.StatusCode != 201 {
		t.Fatalf("putting a manifest: status %d", resp.StatusCode)
	}
}

const (
	ociImage = "application/vnd.oci.image.manifest.v1+json"
	ociIndex = "application/vnd.oci.image.index.v1+json"
)

func TestUnusualManifests(t *testing.T) {
	reg, image, _ := startRegistry(t, testregistry.AuthNone)
	dir := t.TempDir()
	good := mustPull(t, &Puller{}, image, nil, dir)
	raw := readTree(t, dir)[filepath.Join("blobs", "sha256", strings.TrimPrefix(good.Digest, "sha256:"))]
	layer := good.Layers[1]
	absent := "sha256:" + strings.Repeat("ab", 32)
	for _, tt := range []struct{ name, mediaType, raw, says string }{
		{"no JSON", ociImage, "hello", "not a manifest"},
		{"half", ociImage, raw[:50], "not a manifest"},
		{"a list", ociImage, "[]", "not a manifest"},
		{"schema 1", "application/vnd.docker.distribution.manifest.v1+prettyjws", `{"schemaVersion":1}`, "push the image again"},
		{"another type", "application/json", `{}`, "neither an image manifest nor an image index"},
		{"header and content disagree", ociIndex, raw + " ", "but the manifest's media type is"},
		{"image and index at once", ociImage, `{"layers":[],"manifests":[]}`, "neither an image manifest nor an image index"},
		{"index with layers", ociIndex, `{"layers":[],"manifests":[]}`, "neither an image manifest nor an image index"},
		{"no configuration", ociImage, `{"layers":[]}`, "has no digest"},
		{"digest that is a path", ociImage, strings.Replace(raw, layer.Digest, "sha256:../../../../../../../../../../../../../../../../../../../../../etc/", 1), "not valid"},
		{"digest of unknown kind", ociImage, strings.Replace(raw, layer.Digest, "md5:d41d8cd98f00b204e9800998ecf8427e", 1), "not valid"},
		{"negative size", ociImage, strings.Replace(raw, fmt.Sprintf(`"size":%d`, layer.Size), `"size":-1`, 1), "not valid"},
		{"size too small", ociImage, setLayerSize(raw, layer, layer.Size-1), "the registry has"},
		{"size too large", ociImage, setLayerSize(raw, layer, layer.Size+1), "the registry has"},
		{"size beyond all", ociImage, setLayerSize(raw, layer, 9223372036854775807), "or has size 9223372036854775807"},
		{"one blob of two sizes", ociImage, strings.Replace(raw, `"layers":[`, fmt.Sprintf(`"layers":[{"mediaType":"x/y","size":1,"digest":%q},`, layer.Digest), 1), "is listed with two sizes, 1 and"},
		{"blob that is not there", ociImage, strings.Replace(raw, layer.Digest, absent, 1), "blob " + absent + ": HTTP 404 BLOB_UNKNOWN"},
		{"foreign layer", ociImage, strings.Replace(strings.Replace(raw, layer.Digest, absent, 1), `"digest":"`+absent, `"urls":["https://example.com/"],"digest":"`+absent, 1), "foreign layer"},
		{"larger than 4 MiB", ociImage, raw + strings.Repeat(" ", maxManifestSize), "larger than 4194304 bytes"},
		{"empty index", ociIndex, `{"manifests":[]}`, "available: none"},
		{"index that lists no image", ociIndex, `{"manifests":[{"mediaType":"x/y","size":1,"digest":"` + absent + `","platform":{"os":"linux","architecture":"` + runtime.GOARCH + `"}}]}`, "available: none"},
		{"index with a wrong size", ociIndex, `{"manifests":[{"mediaType":"` + ociImage + `","size":1,"digest":"` + good.Digest + `","platform":{"os":"linux","architecture":"` + runtime.GOARCH + `"}}]}`, "the index lists"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			putManifest(t, reg, "odd", tt.mediaType, []byte(tt.raw))
			dir := t.TempDir()
			err := mustFail(t, &Puller{Retry: fastRetry}, strings.Replace(image, ":v1", ":odd", 1), nil, dir)
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %q does not say %q", err, tt.says)
			}
		})
	}
}

// setLayerSize changes the size of one layer in a manifest.
func setLayerSize(raw string, l Layer, size int64) string {
	return strings.Replace(raw, fmt.Sprintf(`"size":%d,"digest":%q`, l.Size, l.Digest), fmt.Sprintf(`"size":%d,"digest":%q`, size, l.Digest), 1)
}

func TestDeepIndex(t *testing.T) {
	reg, image, digest := startRegistry(t, testregistry.AuthNone)
	reg2 := must.Get(http.Get(reg.URL() + "/v2/team/app/manifests/v1"))(t)
	reg2.Body.Close()
	size, mediaType := reg2.ContentLength, ociImage
	for depth := range maxIndexDepth + 1 {
		raw := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"size":%d,"digest":%q}]}`, ociIndex, mediaType, size, digest)
		putManifest(t, reg, fmt.Sprintf("deep%d", depth), ociIndex, []byte(raw))
		hash, n, err := v1.SHA256(strings.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		digest, size, mediaType = hash.String(), n, ociIndex
	}
	p := &Puller{Platform: allPlatforms}
	last := fmt.Sprintf(":deep%d", maxIndexDepth-1)
	if res := mustPull(t, p, strings.Replace(image, ":v1", last, 1), nil, t.TempDir()); len(res.Layers) != 2 {
		t.Errorf("%d layers, want 2", len(res.Layers))
	}
	last = fmt.Sprintf(":deep%d", maxIndexDepth)
	failed := mustFail(t, p, strings.Replace(image, ":v1", last, 1), nil, t.TempDir())
	if want := "more than 4 levels deep"; !strings.Contains(failed.Error(), want) {
		t.Errorf("error %q does not say %q", failed, want)
	}
}

// indexEntryJSON returns the descriptor of a manifest for an index.
func indexEntryJSON(t *testing.T, mediaType, raw string) string {
	t.Helper()
	hash, n, err := v1.SHA256(strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"mediaType":%q,"size":%d,"digest":%q}`, mediaType, n, hash)
}

// countManifestRequests returns the number of requests for manifests.
func countManifestRequests(reg *testregistry.Server) (n int) {
	for _, r := range reg.Requests() {
		if strings.Contains(r.Path, "/manifests/") {
			n++
		}
	}
	return n
}

// TestManifestListedOften verifies that a manifest is downloaded once, even if it is listed
// 5,000 times, directly and in nested indexes.
func TestManifestListedOften(t *testing.T) {
	reg, image, _ := startRegistry(t, testregistry.AuthNone)
	dir := t.TempDir()
	res := mustPull(t, &Puller{}, image, nil, dir)
	raw := readTree(t, dir)[filepath.Join("blobs", "sha256", strings.TrimPrefix(res.Digest, "sha256:"))]
	one := indexEntryJSON(t, ociImage, raw)
	many := `{"schemaVersion":2,"manifests":[` + strings.Repeat(one+",", 4999) + one + `]}`
	putManifest(t, reg, "many", ociIndex, []byte(many))
	nested := indexEntryJSON(t, ociIndex, many)
	putManifest(t, reg, "nested", ociIndex, []byte(`{"schemaVersion":2,"manifests":[`+nested+","+nested+","+one+`]}`))
	for tag, want := range map[string]int{"many": 2, "nested": 3} {
		reg.ResetLog()
		res, err := (&Puller{Platform: allPlatforms}).Pull(t.Context(), strings.Replace(image, ":v1", ":"+tag, 1), nil, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if got := countManifestRequests(reg); got != want || len(res.Layers) != 2 {
			t.Errorf("%s: %d manifests were got, with %d layers, want %d with 2", tag, got, len(res.Layers), want)
		}
	}
	// The descriptor of a manifest that was already downloaded is checked as well.
	liar := strings.Replace(one, `"size":`, `"size":1`, 1)
	putManifest(t, reg, "liar", ociIndex, []byte(`{"schemaVersion":2,"manifests":[`+one+","+liar+`]}`))
	err := mustFail(t, &Puller{Platform: allPlatforms}, strings.Replace(image, ":v1", ":liar", 1), nil, t.TempDir())
	if !strings.Contains(err.Error(), "the index lists") {
		t.Errorf("got %v, want that the index lies", err)
	}
}

// TestManyChildren verifies that the number of manifests downloaded for an index is
// limited.
func TestManyChildren(t *testing.T) {
	reg, image, _ := startRegistry(t, testregistry.AuthNone)
	absent := "sha256:" + strings.Repeat("ab", 32)
	var entries []string
	for i := range maxIndexManifests + 1 {
		child := fmt.Sprintf(`{"schemaVersion":2,"config":{"mediaType":"x/y%d","size":2,"digest":%q},"layers":[]}`, i, absent)
		putManifest(t, reg, "child", ociImage, []byte(child))
		entries = append(entries, indexEntryJSON(t, ociImage, child))
	}
	putManifest(t, reg, "many", ociIndex, []byte(`{"schemaVersion":2,"manifests":[`+strings.Join(entries, ",")+`]}`))
	reg.ResetLog()
	err := mustFail(t, &Puller{Platform: allPlatforms}, strings.Replace(image, ":v1", ":many", 1), nil, t.TempDir())
	if got := countManifestRequests(reg); !strings.Contains(err.Error(), "more than 1000 manifests") || got != maxIndexManifests+1 {
		t.Errorf("got %v after %d manifests", err, got)
	}
}

func TestManifestsTogetherAreBounded(t *testing.T) {
	reg, image, _ := startRegistry(t, testregistry.AuthNone)
	empty := "sha256:" + strings.Repeat("ab", 32)
	var entries []string
	for i := range maxManifestsSize/maxManifestSize + 2 {
		child := fmt.Sprintf(`{"schemaVersion":2,"config":{"mediaType":"x/y%d","size":2,"digest":%q},"layers":[]}`, i, empty)
		child += strings.Repeat(" ", maxManifestSize-len(child))
		putManifest(t, reg, "child", ociImage, []byte(child))
		entries = append(entries, indexEntryJSON(t, ociImage, child))
	}
	putManifest(t, reg, "many", ociIndex, []byte(`{"schemaVersion":2,"manifests":[`+strings.Join(entries, ",")+`]}`))
	failed := mustFail(t, &Puller{Platform: allPlatforms}, strings.Replace(image, ":v1", ":many", 1), nil, t.TempDir())
	if want := "manifests together exceed"; !strings.Contains(failed.Error(), want) {
		t.Errorf("error %q does not say %q", failed, want)
	}
}

func TestManifestOfAnotherDigest(t *testing.T) {
	reg, image, digest := startRegistry(t, testregistry.AuthNone)
	in := reg.Inject(testregistry.Fault{Kind: testregistry.FaultCorrupt, Endpoint: testregistry.EndpointManifests, Times: testregistry.Forever})
	ref := strings.TrimSuffix(image, ":v1") + "@" + digest
	err := mustFail(t, &Puller{Retry: fastRetry}, ref, nil, t.TempDir())
	if want := "the registry sent content with digest"; !strings.Contains(err.Error(), want) || in.Hits() != 1 {
		t.Errorf("error %q after %d requests does not say %q after 1", err, in.Hits(), want)
	}
}

func TestArtifact(t *testing.T) {
	reg, image, _ := startRegistry(t, testregistry.AuthNone)
	dir := t.TempDir()
	res := mustPull(t, &Puller{}, image, nil, dir)
	raw := readTree(t, dir)[filepath.Join("blobs", "sha256", strings.TrimPrefix(res.Digest, "sha256:"))]
	putManifest(t, reg, "chart", ociImage, []byte(strings.Replace(raw, "application/vnd.oci.image.config.v1+json", "application/vnd.cncf.helm.config.v1+json", 1)))
	p := &Puller{Platform: "plan9/mips"} // an artifact has no platform
	got, err := p.Pull(t.Context(), strings.Replace(image, ":v1", ":chart", 1), nil, t.TempDir())
	if err != nil || got.Platform != "" || len(got.Layers) != 2 {
		t.Errorf("got %+v, %v, want 2 layers and no platform", got, err)
	}
}

func TestTargetNames(t *testing.T) {
	got := map[string]string{}
	for _, image := range []string{"nginx", "nginx:1.25", "docker.io/team/app", "index.docker.io/library/nginx", "localhost/x", "registry.example:443/a/b:c"} {
		tg := must.Get(parseTarget(image, false))(t)
		got[image] = tg.name
	}
	want := map[string]string{
		"nginx":                         "docker.io/library/nginx:latest",
		"nginx:1.25":                    "docker.io/library/nginx:1.25",
		"docker.io/team/app":            "docker.io/team/app:latest",
		"index.docker.io/library/nginx": "docker.io/library/nginx:latest",
		"localhost/x":                   "localhost/x:latest",
		"registry.example:443/a/b:c":    "registry.example:443/a/b:c",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
