// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	"strings"
	"testing"

	"github.com/distribution/reference"
)

var referenceSeeds = []string{
	"", " ", "nginx", "nginx:1.25", "library/nginx", "Library/nginx", "docker.io/nginx", "index.docker.io/nginx", "a.io/b", "a.io/b:c",
	"a.io:5000/b/c:d@sha256:" + strings.Repeat("0a", 32), "a.io/b@sha256:short", "a.io/b@sha512:" + strings.Repeat("0a", 64),
	"a.io/B", "A.io/b", "a-.io/b", "-a.io/b", "a..io/b", ".a/b", "a./b", "a.io:/b", "a.io:80:80/b", "[::1]:5000/b", "localhost/b", "localhost",
	"a.io/b__c", "a.io/b---c", "a.io/b.-c", "a.io/b_", "a.io//b", "a.io/b/", "a.io/b:", "a.io/b:.x", "a.io/b:" + strings.Repeat("x", 129),
	strings.Repeat("a", 247), strings.Repeat("a", 248), strings.Repeat("a", 255), strings.Repeat("a", 64), strings.Repeat("a", 64) + ":x", "a.io/" + strings.Repeat("a", 300), "a.io/b%41", "user@a.io/b", "https://a.io/b",
	"a-b.io/c", "a--b.io/c", "a.-b/c", "a.b-/c", "foo/bar:5000/x", "a:5000/b:x@sha256:" + strings.Repeat("AB", 32),
}

func TestRepositoryOf(t *testing.T) {
	for _, s := range referenceSeeds {
		checkReference(t, s)
	}
}

func checkReference(t *testing.T, s string) {
	t.Helper()
	want, wantErr := "", error(nil)
	if named, err := reference.ParseNormalizedNamed(s); err != nil {
		wantErr = err
	} else {
		want = named.Name()
	}
	got, err := Repository(s)
	if got != want || (err == nil) != (wantErr == nil) {
		t.Errorf("Repository(%q) = %q, %v; library: %q, %v", s, got, err, want, wantErr)
	}
}

func FuzzReference(f *testing.F) {
	for _, s := range referenceSeeds {
		f.Add(s)
	}
	f.Fuzz(checkReference)
}

func TestRegistryHost(t *testing.T) {
	for in, want := range map[string]string{
		"gcr.io": "gcr.io", "localhost:5000": "localhost:5000", "[::1]:5000": "[::1]:5000", "docker.io": "docker.io",
		"index.docker.io": "docker.io", "registry-1.docker.io": "docker.io",
		"": "", "gcr.io/x": "", "https://gcr.io": "", "a b": "", "a..b": "", "*.io": "", "gcr.io:": "",
	} {
		got, err := Registry(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Registry(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestPlainRepositoryAllocates(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := plainRepository("registry.example:5000/team/app:v1.2.3"); !ok {
			t.Fatal("not plain")
		}
	}); n != 0 {
		t.Errorf("allocates %v times, want 0", n)
	}
}
