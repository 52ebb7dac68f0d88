// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/vector"
)

// TestOptions verifies that options are rejected with which a run would compare nothing, or not
// what the user expects.
func TestOptions(t *testing.T) {
	for _, args := range []string{"", "-scale 0.01 -o json", "-kubelet v1.33.13,1.40.0", "-record", "-check -seed 18446744073709551615"} {
		if o, err := parseFlags(strings.Fields(args)); err != nil || slices.ContainsFunc(o.kubelets, func(v string) bool { return strings.HasPrefix(v, "v") }) {
			t.Errorf("%s: %v, %v", args, o.kubelets, err)
		}
	}
	for args, want := range map[string]string{
		"-o yaml":                  `output format "yaml"`,
		"-scale 0":                 "scale 0",
		"-scale -1":                "scale -1",
		"-scale NaN":               "scale NaN",
		"-scale Inf":               "scale +Inf",
		"-kubelet 1.33.13, 1.34.4": `argument "1.34.4"`,
		"-kubelet 1.34.4,v1.34.4":  "release 1.34.4 is there twice",
		"-kubelet 1.34.4,1.31.14":  "release 1.31.14: older than 1.33",
		"-record -check":           "leave out one of them",
		"-record -kubelet 1.33.13": "leave out -kubelet, -seed and -scale",
		"-record -seed 2":          "leave out -kubelet, -seed and -scale",
		"-record -scale 0.5":       "leave out -kubelet, -seed and -scale",
	} {
		if _, err := parseFlags(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q in it", args, err, want)
		}
	}
}

// TestEarlyErrors verifies that errors are reported before the first release is queried. Release
// 1.36.3 is available because this module requires it.
func TestEarlyErrors(t *testing.T) {
	vectors := filepath.Join("..", "..", "testdata", "parity")
	bare := t.TempDir() // a directory without skew.json
	for _, k := range vector.Kinds {
		data, err := os.ReadFile(filepath.Join(vectors, k.Name+".json"))
		if err == nil {
			err = os.WriteFile(filepath.Join(bare, k.Name+".json"), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		kubelets, vectors string
		check             bool
		want              string
	}{
		{"1.36.3", t.TempDir(), false, "match.json"},
		{"1.36.3", bare, true, "skew.json"},
		{"1.36.3,banana", vectors, true, `release "banana": not a release of Kubernetes`},
		{"1.36.3,", vectors, false, `release "": not a release of Kubernetes`},
	} {
		o := options{kubelets: strings.Split(tt.kubelets, ","), scale: 1, output: "text", vectors: tt.vectors, check: tt.check}
		if err := compareReleases(t.Context(), io.Discard, o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestWritable verifies that checkWritable leaves no file and rejects a missing directory.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	if err := checkWritable(dir); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if err := checkWritable(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there: no error")
	}
}

// TestVersionThatIsNot verifies the error for a release that the Go proxy does not have. It must
// list the available releases. The proxy is a directory. Other modules come from the local cache.
func TestVersionThatIsNot(t *testing.T) {
	proxy := t.TempDir()
	dir := filepath.Join(proxy, "k8s.io", "kubernetes", "@v")
	must.Do(t, os.MkdirAll(dir, 0o700))
	for name, text := range map[string]string{
		"list":         "v1.33.12\nv1.33.13\nv1.34.0\n",
		"v1.34.0.info": `{"Version": "v1.34.0", "Time": "2025-08-27T00:00:00Z"}`,
		"v1.34.0.mod":  "module k8s.io/kubernetes\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cache := must.Get(exec.Command("go", "env", "GOMODCACHE").Output())(t)
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(filepath.Join(strings.TrimSpace(string(cache)), "cache", "download")))
	t.Setenv("GONOSUMDB", "*")
	t.Setenv("GOMODCACHE", t.TempDir()) // must not contain this proxy's modules
	for version, want := range map[string]string{
		"1.33.99": "of this minor release the Go proxy has v1.33.12, v1.33.13",
		"1.99.0":  "the Go proxy has no version of this minor release; it has v1.33.12 v1.33.13 v1.34.0",
	} {
		_, err := openReleases(t.Context(), []string{version})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "release v"+version) {
			t.Errorf("%s: %v; want %q in it", version, err, want)
		}
	}
}
