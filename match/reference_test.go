// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	_ "crypto/sha256" // The library accepts only digests whose hash is linked in.
	_ "crypto/sha512" // The kubelet links in these hashes.
	"fmt"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"go/build"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/reference"
)

var (
	hex32  = strings.Repeat("0a", 16)
	hex64  = strings.Repeat("0a", 32)
	hex96  = strings.Repeat("0a", 48)
	hex128 = strings.Repeat("0a", 64)
)

var referenceSeeds = []string{
	"", " ", "nginx", "nginx:1.25", "library/nginx", "Library/nginx", "docker.io/nginx", "index.docker.io/nginx", "a.io/b", "a.io/b:c",
	"a.io:5000/b/c:d@sha256:" + hex64, "a.io/b@sha256:short", "a.io/b@sha512:" + hex128,
	"a.io/B", "A.io/b", "a-.io/b", "-a.io/b", "a..io/b", ".a/b", "a./b", "a.io:/b", "a.io:80:80/b", "[::1]:5000/b", "localhost/b", "localhost",
	"a.io/b__c", "a.io/b---c", "a.io/b.-c", "a.io/b_", "a.io//b", "a.io/b/", "a.io/b:", "a.io/b:.x", "a.io/b:" + strings.Repeat("x", 129),
	strings.Repeat("a", 247), strings.Repeat("a", 248), strings.Repeat("a", 255), strings.Repeat("a", 64), strings.Repeat("a", 64) + ":x", "a.io/" + strings.Repeat("a", 300), "a.io/b%41", "user@a.io/b", "https://a.io/b",
	"a-b.io/c", "a--b.io/c", "a.-b/c", "a.b-/c", "foo/bar:5000/x", "a:5000/b:x@sha256:" + strings.Repeat("AB", 32),

	"a.io/" + strings.Repeat("a", 255), "a.io/" + strings.Repeat("a", 256), "docker.io/" + strings.Repeat("a", 247), "docker.io/" + strings.Repeat("a", 248),
	"docker.io/a/" + strings.Repeat("a", 253), "a/" + strings.Repeat("a", 254), "a_b.c/" + strings.Repeat("a", 249), "a_b.c/" + strings.Repeat("a", 250),
	"docker.io/library/nginx", "docker.io/a/b", "docker.io", "docker.io/", "index.docker.io", "index.docker.io/a/b", "index.docker.io:443/a", "Docker.io/a", "registry-1.docker.io/a",
	"localhost/a:b", "localhost:80/a", "localhost:80", "LOCALHOST/a", "localhost/", "localhost/A",
	"a.io/b_c", "a.io/b___c", "a.io/b-", "a.io/b-/c", "a.io/b..c", "a.io/_b", "a.io/-b", "a.io/b_-c", "a.io/b/-c", "a.io/b-.c", "a__b/c", "a--b", "a.io/b/__c", "a.io/b.c_d-e",
	"a_b.c/d", "a_b.c/D", "a_b:80/c", "a_b/c", "a.b_/c", "A_b/c", "Foo/bar", "Foo/Bar", "Foo:80/bar", "foo:80/bar", "É.io/a", "É/a", "\u212a/a", "\u212a.io/a",
	"[::1]/a", "[::1]", "[]/a", "[:]/a", "[]:80/a", "[abc]/d", "[ABC]/d", "[fe80::1%25eth0]/a", "[::ffff:1.2.3.4]/a", "[::1]a/b", "[::1]:/a", "[::1]:x/a", "[::1]]:80/a", "[[::1]/a", "a[::1]/b", "::1/a", "[::1/a", "::1]/a", "[G]:1/a",
	"a.io:080/b", "a.io:99999999999/b", "a.io:8a/b", ":80/a", "/a", "/", "a:b:c", "a/b:c:d", "a/b:c/d", ":", ":a", "@", "a@", "a:@sha256:" + hex64, "a:b@", "a@b@c",
	"a:" + strings.Repeat("x", 128), "a:_", "a:-", "a:A.b-c_d", "a:b+c", "a:é",
	"a@sha256:" + hex64, "a@sha384:" + hex96, "a@sha512:" + hex128, "a@sha512:" + hex64, "a@sha256:" + hex96, "a@sha224:" + hex64, "a@md5:" + hex32, "a@SHA256:" + hex64, "a@sha256:" + strings.ToUpper(hex64),
	"a@sha256:" + hex64[1:], "a@sha256:" + hex64 + "0", "a@sha256:" + hex64[1:] + "g", "a@sha256+b64:" + hex64, "a@a+b.c:" + hex32, "a@sha256", "a@sha256:", "a@:" + hex64, "a@" + hex64, "a@sha256:" + hex64 + ":b", "a@sha256:" + hex64 + "@sha256:" + hex64, "a@sha256:" + hex64 + "/b",
	"a\n", "a:b\n", "a@sha256:" + hex64 + "\n", hex64, hex64 + "\n", strings.ToUpper(hex64), hex64[1:] + "g", "library/" + hex64, "docker.io/" + hex64, hex64 + "@sha256:" + hex64, "localhost/" + hex64,
	"a\x00b", "a.io/\x00", "a\xff", "\xff.io/a", "a.io/é", "a\u200b", "a\tb", "a.io/a b", "*.io/a", "a.io/*", "a.io/b?c", "a.io/b#c", `a\b`, "a.io\\b/c",
}

func TestRepository(t *testing.T) {
	for _, s := range referenceSeeds {
		checkReference(t, s)
	}
}

func FuzzReference(f *testing.F) {
	for _, s := range referenceSeeds {
		f.Add(s)
	}
	f.Fuzz(checkReference)
}

// checkReference verifies that Repository returns the same result as the library.
func checkReference(t *testing.T, s string) {
	t.Helper()
	want := ""
	named, wantErr := reference.ParseNormalizedNamed(s)
	if wantErr == nil {
		want = named.Name()
	}
	got, err := Repository(s)
	if got != want || (err == nil) != (wantErr == nil) {
		t.Errorf("Repository(%q) = %q, %v; library: %q, %v", s, got, err, want, wantErr)
	}
	if err != nil {
		return
	}
	if again, err := Repository(got); again != got || err != nil {
		t.Errorf("Repository(%q) = %q, %v, which came of %q", got, again, err, s)
	}
}

// TestRepositoryAgreesWithLibrary compares Repository with the library. It generates references
// from valid and nearly valid parts, and changes a byte in every third reference.
func TestRepositoryAgreesWithLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	const rounds = 100_000
	for range rounds {
		s := randomReference(rng)
		checkReference(t, s)
		if t.Failed() {
			t.FailNow()
		}
		if _, err := Repository(s); err == nil {
			accepted++
		}
	}
	if accepted < rounds/10 || accepted > rounds*9/10 {
		t.Errorf("%d of %d accepted: the generator no longer makes near misses", accepted, rounds)
	}
}

func randomReference(rng *rand.Rand) string {
	// Words in the first half are selected more often.
	pick := func(words ...string) string { return words[min(rng.IntN(len(words)), rng.IntN(len(words)))] }
	component := func() string {
		s := pick("a", "app", "library", "0", "docker.io", hex64, "A", "")
		for rng.IntN(2) == 0 {
			s += pick("-", ".", "_", "__", "---", "___", "..", "-.", "_-", "é") + pick("b", "1", "app", "", "B")
		}
		return s
	}
	var b strings.Builder
	b.WriteString(pick("", "", "r.io/", "a-b.io:5000/", "localhost/", "docker.io/", "index.docker.io/", "R.io/", "Foo/", "[::1]:5000/", "[2001:db8::1]/", "127.0.0.1:80/",
		"a_b.c/", "a.b-/", "-a.b/", "a..b/", "r.io:/", "r.io:x/", "[::1]x/", "[fe80::1%eth0]/", "[::ffff:1.2.3.4]/", "[]/", "https://r.io/", "localhost:/", "É.io/"))
	b.WriteString(component())
	for rng.IntN(3) == 0 {
		b.WriteString(pick("/", "/", "/", "//", ":") + component())
	}
	if rng.IntN(12) == 0 { // lengths around the limit of 255, which includes "library/" for Docker Hub
		b.WriteString(strings.Repeat("a", max(0, 240+rng.IntN(40)-b.Len())))
	}
	if rng.IntN(3) == 0 {
		b.WriteString(":" + pick("v1.2.3", "_", "A-b", strings.Repeat("x", 127+rng.IntN(3)), "", ".", "-a", "a+b", "5000/x"))
	}
	if rng.IntN(3) == 0 {
		algorithm := pick("sha256", "sha512", "sha384", "SHA256", "sha1", "a+b.c", "sha256+b64", "sha_256", "", "é")
		hex := strings.Repeat("0a", []int{16, 31, 32, 48, 64, 65}[rng.IntN(6)])
		if n, ok := map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}[algorithm]; ok && rng.IntN(3) > 0 {
			hex = strings.Repeat("9f", n/2)
		}
		b.WriteString("@" + algorithm + pick(":", ":", ":", "", "::") + hex)
	}
	s := b.String()
	if rng.IntN(3) == 0 {
		i := rng.IntN(len(s) + 1)
		s = s[:i] + pick("", "a", "A", "-", ".", "_", ":", "/", "@", "0", "[", "]", "%", " ", "\n", "\x00", "é", "\xff") + s[min(len(s), i+rng.IntN(2)):]
	}
	return s
}

func TestRepositoryErrors(t *testing.T) {
	for image, want := range map[string]string{
		"":                                 ``,
		"a b":                              ``,
		"r.io/a b":                         ``,
		"a\n":                              ``,
		"r.io/X":                           `: repository name (X) must be lowercase`,
		"A:B:C":                            `: repository name (A) must be lowercase`,
		"r.io/" + strings.Repeat("X", 301): `: repository name (` + strings.Repeat("X", 300) + `…) must be lowercase`,

		"https://r.io/a":          `: an image name cannot have a scheme`,
		"r.io:x/a":                `: the part before the first slash is not a valid host[:port]`,
		"-r.io/a":                 `: the part before the first slash is not a valid host[:port]`,
		"r.io//a":                 `: the name has an empty path component: a leading, trailing or double slash`,
		"r.io/":                   `: the name has an empty path component: a leading, trailing or double slash`,
		"/a":                      `: the name has an empty path component: a leading, trailing or double slash`,
		"a..b":                    `: separators between letters or digits must be one period, one or two underscores, or any number of hyphens`,
		"r.io/a-":                 `: separators between letters or digits must be one period, one or two underscores, or any number of hyphens`,
		hex64:                     `: a string of 64 hex digits is an image ID, not an image name`,
		strings.Repeat("a", 248):  `: the name after the registry is longer than 255 characters`,
		"a:":                      `: a tag can contain only letters, digits, _, - and ., must not start with - or ., and must not exceed 128 characters`,
		"user@r.io/a":             `: a digest must be sha256:, sha384: or sha512: followed by 64, 96 or 128 lowercase hex digits`,
		"a@sha512:" + hex64:       `: a digest must be sha256:, sha384: or sha512: followed by 64, 96 or 128 lowercase hex digits`,
		"r.io/a:@sha256:" + hex64: `: a tag can contain only letters, digits, _, - and ., must not start with - or ., and must not exceed 128 characters`,
	} {
		_, err := Repository(image)
		if err == nil {
			t.Errorf("%q is accepted", image)
			continue
		}
		_, got, _ := strings.Cut(err.Error(), `": invalid reference format`)
		if got != want {
			t.Errorf("%q: got %q, want %q", image, err, want)
		}
	}
}

func TestRepositoryAllocates(t *testing.T) {
	for _, image := range []string{"registry.example:5000/team/app:v1.2.3", "docker.io/team/app@sha256:" + hex64} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := Repository(image); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: allocates %v times, want 0", image, n)
		}
	}
}

func TestRegistry(t *testing.T) {
	for in, want := range map[string]string{
		"gcr.io": "gcr.io", "localhost": "localhost", "localhost:5000": "localhost:5000", "[::1]:5000": "[::1]:5000", "docker.io": "docker.io",
		"index.docker.io": "docker.io", "registry-1.docker.io": "docker.io",
		"R.io": "R.io", "Index.docker.io": "Index.docker.io", "index.docker.io:443": "index.docker.io:443",
		"": "", "gcr.io/x": "", "https://gcr.io": "", "a b": "", "a..b": "", "*.io": "", "gcr.io:": "", "a_b.io": "", "user@gcr.io": "", "gcr.io\n": "",
	} {
		got, err := Registry(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Registry(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, s := range referenceSeeds {
		host, _, _ := strings.Cut(s, "/")
		checkRegistry(t, host)
		checkRegistry(t, s)
	}
	_, err := Registry("r.io/x")
	if want := `registry "r.io/x": must be host[:port], such as registry.example:5000`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func FuzzRegistry(f *testing.F) {
	for _, s := range referenceSeeds {
		host, _, _ := strings.Cut(s, "/")
		f.Add(host)
	}
	f.Fuzz(checkRegistry)
}

// checkRegistry verifies that Registry accepts a string if and only if the string may be the
// host of an image name.
func checkRegistry(t *testing.T, s string) {
	t.Helper()
	named, err := reference.WithName(s + "/x")
	want := err == nil && reference.Domain(named) == s
	got, err := Registry(s)
	alias := s == "index.docker.io" || s == "registry-1.docker.io"
	if want != (err == nil) || want && got != s && !alias {
		t.Errorf("Registry(%q) = %q, %v; a registry to the library: %v", s, got, err, want)
	}
}

// TestErrorsHidePasswords passes a URL with a password instead of an image or a registry. It
// verifies that the error does not contain the password.
func TestErrorsHidePasswords(t *testing.T) {
	for _, before := range []string{"https://user:%s@", "user:%s@", "%s@", "http://%s@", "//user:%s@", "https://user:a/%s@", "user:%s/@", "https://u:%s@@"} {
		for _, after := range []string{"registry.example", "registry.example:5000/team/App", "registry.example/app@sha256:0123", "REGISTRY.example/a b"} {
			text := strings.Replace(before, "%s", canary.PasswordSecret, 1) + after
			_, err := Repository(text)
			canary.AssertAbsent(t, "the error of Repository", fmt.Sprint(err))
			_, err = Registry(text)
			canary.AssertAbsent(t, "the error of Registry", fmt.Sprint(err))
			if err == nil || !strings.Contains(err.Error(), "@"+after[:5]) {
				t.Errorf("got %v, want an error that names what follows the user", err)
			}
		}
	}
}

// TestImports verifies that this package does not import package net or regexp. Every plugin
// links this package, and these two are larger than a small plugin.
func TestImports(t *testing.T) {
	const internal = "github.com/regcred/regcred/internal/"
	small := []string{"errors", "fmt", "net/netip", "path", "slices", "sort", "strings", "unicode", internal + "excerpt", internal + "location", internal + "diagnose"}
	for dir, want := range map[string][]string{
		".": small, "../internal/location": small, "../internal/diagnose": append([]string{"bytes", "encoding/json", "unicode/utf8", internal + "protocol", internal + "spelling"}, small...),
	} {
		pkg := must.Get(build.ImportDir(dir, 0))(t)
		for _, path := range pkg.Imports {
			if !slices.Contains(want, path) {
				t.Errorf("%s imports %s; want only %q", dir, path, want)
			}
		}
	}
}

func BenchmarkRepository(b *testing.B) {
	for name, image := range map[string]string{
		"host": "registry.example:5000/team/app:v1.2.3", "hub": "nginx:1.25", "digest": "registry.example/team/app@sha256:" + hex64, "rare": "index.docker.io/team__x/app---y:v1",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Repository(image); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestSanitizeForError(t *testing.T) {
	most := strings.Repeat("x", 300)
	if got := sanitizeForError(most); got != most {
		t.Errorf("300 bytes became %d", len(got))
	}
	if got := sanitizeForError(most + "y"); got != most+"…" {
		t.Errorf("301 bytes became %q", got)
	}
}
