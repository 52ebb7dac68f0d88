// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o777))
	must.Do(t, os.WriteFile(path, []byte(content), 0o666))
}

// readTree returns all files below dir with their content.
func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		got[rel] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestOutputRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		says  string
	}{
		{"a file", map[string]string{"": "precious"}, "output directory"},
		{"not a layout", map[string]string{"precious": "x"}, "not empty and is not an OCI image layout"},
		{"another version", map[string]string{"oci-layout": `{"imageLayoutVersion":"2.0.0"}`}, "not an OCI image layout with version 1.0.0"},
		{"a marker that is no JSON", map[string]string{"oci-layout": "x"}, "not an OCI image layout with version 1.0.0"},
		{"a broken index", map[string]string{"oci-layout": `{"imageLayoutVersion":"1.0.0"}`, "index.json": "{"}, "index.json: not valid"},
		{"an index that is no object", map[string]string{"oci-layout": `{"imageLayoutVersion":"1.0.0"}`, "index.json": "null"}, "index.json: not valid"},
		{"an index with a broken list", map[string]string{"oci-layout": `{"imageLayoutVersion":"1.0.0"}`, "index.json": `{"manifests":{}}`}, "index.json: not valid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reg, image, _ := startRegistry(t, testregistry.AuthNone)
			dir := filepath.Join(t.TempDir(), "out")
			for name, content := range tt.files {
				writeFile(t, filepath.Join(dir, name), content)
			}
			before := readTree(t, dir)
			_, err := (&Puller{}).Pull(t.Context(), image, nil, dir)
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v does not say %q and the directory", err, tt.says)
			}
			if diff := cmp.Diff(before, readTree(t, dir)); diff != "" {
				t.Errorf("the output changed (-before +after):\n%s", diff)
			}
			if got := reg.Requests(); len(got) != 0 {
				t.Errorf("requests were made: %v", got)
			}
		})
	}
}

func TestOutputTaken(t *testing.T) {
	const old = `{"manifests":[
		{"mediaType":"application/x","digest":"sha256:aa","size":1,"x-unknown":1},
		{"mediaType":"application/x","digest":"sha256:bb","size":1,"annotations":{"org.opencontainers.image.ref.name":"other"}},
		{"mediaType":"application/x","digest":"sha256:cc","size":1,"annotations":{"org.opencontainers.image.ref.name":"%s"}}
	],"schemaVersion":2,"x-unknown":{"a":[1]},"annotations":{"k":"<v>"}}`
	const marker = `{"imageLayoutVersion": "1.0.0", "x-unknown": 1}`
	_, image, digest := startRegistry(t, testregistry.AuthNone)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "oci-layout"), marker)
	writeFile(t, filepath.Join(dir, "index.json"), fmt.Sprintf(old, image))
	writeFile(t, filepath.Join(dir, "notes.txt"), "mine")

	must.Get((&Puller{}).Pull(t.Context(), image, nil, dir))(t)
	files := readTree(t, dir)
	if files["oci-layout"] != marker || files["notes.txt"] != "mine" {
		t.Errorf("other files changed: %q, %q", files["oci-layout"], files["notes.txt"])
	}
	var got, want map[string]any
	must.Do(t, json.Unmarshal([]byte(files["index.json"]), &got))
	must.Do(t, json.Unmarshal([]byte(fmt.Sprintf(old, image)), &want))
	list := got["manifests"].([]any)
	last := list[len(list)-1].(map[string]any)
	if last["digest"] != digest {
		t.Errorf("the last entry has the digest %v, want %s", last["digest"], digest)
	}
	want["manifests"] = append(want["manifests"].([]any)[:2], last)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("index.json (-want +got):\n%s", diff)
	}
}

func TestSecondImageAndReplacement(t *testing.T) {
	reg, image, first := startRegistry(t, testregistry.AuthNone)
	dir := t.TempDir()
	mustPull(t, &Puller{}, image, nil, dir)
	second := must.Get(reg.Push("team/app", "v2", testregistry.Image{Seed: 2}))(t)
	image2 := strings.Replace(image, ":v1", ":v2", 1)
	mustPull(t, &Puller{}, image2, nil, dir)
	if diff := cmp.Diff(map[string]string{image: first, image2: second}, taggedDigests(t, dir)); diff != "" {
		t.Errorf("index.json (-want +got):\n%s", diff)
	}
	third := must.Get(reg.Push("team/app", "v1", testregistry.Image{Seed: 3}))(t)
	mustPull(t, &Puller{}, image, nil, dir)
	if diff := cmp.Diff(map[string]string{image: third, image2: second}, taggedDigests(t, dir)); diff != "" {
		t.Errorf("index.json after replacement (-want +got):\n%s", diff)
	}
}

// damageFuncs contains functions that damage a stored blob.
var damageFuncs = map[string]func(t *testing.T, path string){
	"other bytes": func(t *testing.T, path string) {
		raw := must.Get(os.ReadFile(path))(t)
		raw[len(raw)/2] ^= 1
		writeFile(t, path, string(raw))
	},
	"short": func(t *testing.T, path string) {
		must.Do(t, os.Truncate(path, 10))
	},
	"gone": func(t *testing.T, path string) {
		must.Do(t, os.Remove(path))
	},
	"a link to elsewhere": func(t *testing.T, path string) {
		elsewhere := filepath.Join(t.TempDir(), "blob")
		must.Do(t, os.Rename(path, elsewhere))
		if err := os.Symlink(elsewhere, path); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	},
}

func TestReuseOnlyWhatVerifies(t *testing.T) {
	for name, do := range damageFuncs {
		t.Run(name, func(t *testing.T) {
			reg, image, _ := startRegistry(t, testregistry.AuthNone)
			dir := t.TempDir()
			res := mustPull(t, &Puller{}, image, nil, dir)
			path := func(digest string) string {
				return filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
			}
			do(t, path(res.Layers[0].Digest))
			reg.ResetLog()
			res = mustPull(t, &Puller{}, image, nil, dir)
			if res.Layers[0].Reused || !res.Layers[1].Reused {
				t.Errorf("reused: %t, %t, want only the second", res.Layers[0].Reused, res.Layers[1].Reused)
			}
			var got []string
			for _, r := range reg.Requests() {
				if strings.Contains(r.Path, "/blobs/") {
					got = append(got, filepath.Base(r.Path))
				}
			}
			if diff := cmp.Diff([]string{res.Layers[0].Digest}, got); diff != "" {
				t.Errorf("downloaded (-want +got):\n%s", diff)
			}
			if info, err := os.Lstat(path(res.Layers[0].Digest)); err != nil || !info.Mode().IsRegular() {
				t.Errorf("the blob is not a plain file: %v, %v", info, err)
			}
		})
	}
}

func TestResumesAfterFailure(t *testing.T) {
	reg, image, _ := startRegistryWith(t, testregistry.Options{}, testregistry.Image{Layers: 3})
	// The configuration and two layers arrive, but the third layer never does.
	fault := reg.Inject(testregistry.Fault{Kind: testregistry.FaultServerError, Endpoint: testregistry.EndpointBlobs, After: 3, Times: testregistry.Forever})
	dir := t.TempDir()
	p := &Puller{Retry: fastRetry, Parallel: 1}
	mustFail(t, p, image, nil, dir)
	fault.Remove()
	res := mustPull(t, p, image, nil, dir)
	var got []bool
	for _, l := range res.Layers {
		got = append(got, l.Reused)
	}
	if diff := cmp.Diff([]bool{true, true, false}, got); diff != "" {
		t.Errorf("reused (-want +got):\n%s", diff)
	}
}

func TestPermissionsFollowUmask(t *testing.T) {
	_, image, _ := startRegistry(t, testregistry.AuthNone)
	dir := t.TempDir()
	res := mustPull(t, &Puller{}, image, nil, dir)
	plain := filepath.Join(t.TempDir(), "plain")
	f, err := os.Create(plain) // 0666 before umask
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	want, _ := os.Stat(plain)
	for _, name := range []string{"index.json", "oci-layout", "blobs/sha256/" + strings.TrimPrefix(res.Digest, "sha256:")} {
		got := must.Get(os.Stat(filepath.Join(dir, name)))(t)
		if got.Mode() != want.Mode() {
			t.Errorf("%s has mode %s, want %s", name, got.Mode(), want.Mode())
		}
	}
}

// TestConcurrentPulls pulls into one layout with several Pullers, as several processes would,
// and also with one Puller concurrently.
func TestConcurrentPulls(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no flock: see Puller")
	}
	reg, image, _ := startRegistry(t, testregistry.AuthNone)
	dir := t.TempDir()
	shared := &Puller{}
	want := map[string]string{}
	var wg sync.WaitGroup
	for i := range 16 {
		tag := fmt.Sprintf("t%d", i)
		digest := must.Get(reg.Push("team/app", tag, testregistry.Image{Seed: int64(i % 4)}))(t)
		ref := strings.Replace(image, ":v1", ":"+tag, 1)
		want[ref] = digest
		p := shared
		if i%2 == 0 {
			p = &Puller{}
		}
		wg.Go(func() {
			if _, err := p.Pull(t.Context(), ref, nil, dir); err != nil {
				t.Errorf("Pull %s: %v", ref, err)
			}
		})
	}
	wg.Wait()
	checkLayout(t, dir)
	if diff := cmp.Diff(want, taggedDigests(t, dir)); diff != "" {
		t.Errorf("index.json (-want +got):\n%s", diff)
	}
}

func TestUnwritable(t *testing.T) {
	_, image, _ := startRegistry(t, testregistry.AuthNone)
	parent := filepath.Join(t.TempDir(), "file")
	writeFile(t, parent, "x")
	_, err := (&Puller{}).Pull(t.Context(), image, nil, filepath.Join(parent, "dir"))
	if err == nil || !strings.Contains(err.Error(), parent) {
		t.Errorf("error %v does not name %s", err, parent)
	}
	if errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v: says that something does not exist", err)
	}
}
