// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/util/parsers"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/corpus"
)

var (
	labels = []string{"a", "b", "io", "com", "registry", "gcr", "dkr", "ecr", "us-east-1", "123", "x_y", "é", ""}
	paths  = []string{"a", "b", "team", "team-evil", "app", "a.b", "x_y", ""}
	ports  = []string{"", "", "", "", "", "", ":5000", ":5000", ":5000", ":443", ":443", ":", ":", ":80:80", ":x"}
	// scraps are what a pattern may have in an unexpected place.
	scraps = []string{"*", "?", "[", "]", "[a-z]", "[^a]", "\\", "%61", "%2F", "%zz", "%", "@", "u@", "u:p@", "?q", "#f", ":", "/", "//", ".", "..", " ", "\x00", "\x7f", "\n", "\xff", "é", "https://", "[::1]", "[fe80::1%25en0]", "[::1", "A", "&", ";", "+", "<", "\"", "|", "^", "`", "{", "~", "-", "_", "5000"}
)

func image(r *rand.Rand) string {
	var host []string
	for range 1 + r.IntN(4) {
		host = append(host, pick(r, labels))
	}
	s := strings.Join(host, ".") + pick(r, ports)
	if one(r, 20) {
		s = pick(r, []string{"[::1]", "[::1]:5000", "[2001:db8::1]:443", "localhost", "localhost:5000", "10.0.0.7:5000"})
	}
	for range r.IntN(4) {
		s += "/" + pick(r, paths)
	}
	return s
}

// near turns an image into a pattern that matches it, or nearly does.
func near(r *rand.Rand, image string) string {
	host, path, slash := strings.Cut(image, "/")
	list := strings.Split(host, ".")
	for i := range list {
		if one(r, 2) {
			list[i] = nearLabel(r, list[i])
		}
	}
	switch r.IntN(12) {
	case 0:
		list = append(list, pick(r, labels))
	case 1:
		list = list[1:]
	case 2:
		list = append([]string{"*"}, list...)
	}
	s := strings.Join(list, ".")
	if one(r, 10) {
		s += pick(r, ports)
	}
	if slash && one(r, 2) {
		s += "/" + path[:r.IntN(len(path)+1)]
	}
	if one(r, 12) {
		s += "/" + pick(r, paths)
	}
	return s
}

func nearLabel(r *rand.Rand, label string) string {
	if len(label) == 0 {
		return pick(r, []string{"*", "?", ""})
	}
	at := r.IntN(len(label))
	switch r.IntN(8) {
	case 0:
		return "*"
	case 1:
		return label[:at] + "*"
	case 2:
		return "*" + label[at:]
	case 3:
		return label[:at] + "?" + label[at+1:]
	case 4:
		return label[:at] + "[" + label[at:at+1] + "-z]" + label[at+1:]
	case 5:
		return label[:at] + "*" + label[at:]
	case 6:
		return label[:at] + "\\" + label[at:]
	}
	return strings.ToUpper(label)
}

func pair(r *rand.Rand) (pattern, target string) {
	target = image(r)
	pattern = near(r, target)
	if one(r, 5) {
		pattern = mutate(r, pattern, scraps)
	}
	if one(r, 8) {
		target = mutate(r, target, scraps)
	}
	return pattern, target
}

// checkMatch compares one pattern with one image.
func checkMatch(t testing.TB, pattern, target string) bool {
	want, _ := credentialprovider.URLsMatchStr(pattern, target)
	_, wantErr := credentialprovider.ParseSchemelessURL(pattern)
	p, err := match.Parse(pattern)
	if (err != nil) != (wantErr != nil) {
		t.Errorf("pattern %q: error %v, the kubelet's %v", pattern, err, wantErr)
		return false
	}
	if got := p.Match(target); got != want {
		t.Errorf("pattern %q, image %q: match %t, the kubelet's %t", pattern, target, got, want)
		return false
	}
	return true
}

func TestMatch(t *testing.T) {
	matched, invalid := 0, 0
	cases(t, 1_000_000, func(r *rand.Rand) bool {
		pattern, target := pair(r)
		p, err := match.Parse(pattern)
		if err != nil {
			invalid++
		} else if p.Match(target) {
			matched++
		}
		return checkMatch(t, pattern, target)
	})
	t.Logf("%d matched, %d patterns were invalid", matched, invalid)
	if matched < 1000 || invalid < 1000 {
		t.Error("the generator no longer makes near matches")
	}
}

func FuzzMatch(f *testing.F) {
	for _, p := range corpus.Match() {
		f.Add(p.Pattern, p.Image)
	}
	f.Fuzz(func(t *testing.T, pattern, target string) { checkMatch(t, pattern, target) })
}

// checkReference compares the normalised name of a raw reference, and whether
// patterns can match it: of a valid reference the host may be no URL's, such
// as [:::1].
func checkReference(t testing.TB, ref string) bool {
	want, _, _, wantErr := parsers.ParseImageName(ref)
	got, err := match.Repository(ref)
	if (err != nil) != (wantErr != nil) || wantErr == nil && got != want {
		t.Errorf("reference %q: %q, error %v; the kubelet's %q, error %v", ref, got, err, want, wantErr)
		return false
	}
	if wantErr != nil {
		return true
	}
	_, wantErr = credentialprovider.ParseSchemelessURL(want)
	if _, err = match.ParseLocation(got); (err != nil) != (wantErr != nil) {
		t.Errorf("repository %q: error %v, the kubelet's %v", got, err, wantErr)
		return false
	}
	return true
}

var referenceScraps = []string{":", "@", "/", ".", "_", "__", "-", "--", ":latest", "@sha256:", strings.Repeat("0a", 32), "docker.io/", "index.docker.io/", "library/", "localhost/", "A", " ", "[::1]:5000/", ":5000/", strings.Repeat("a", 120), strings.Repeat("a/", 60), "%", "é"}

func TestReference(t *testing.T) {
	list := corpus.References()
	valid := 0
	cases(t, 200_000, func(r *rand.Rand) bool {
		ref := pick(r, list)
		if one(r, 2) {
			ref = image(r)
		}
		for range r.IntN(3) {
			ref = mutate(r, ref, referenceScraps)
		}
		if _, _, _, err := parsers.ParseImageName(ref); err == nil {
			valid++
		}
		return checkReference(t, ref)
	})
	if valid < 1000 {
		t.Errorf("only %d references were valid", valid)
	}
}

func FuzzReference(f *testing.F) {
	for _, ref := range corpus.References() {
		f.Add(ref)
	}
	f.Fuzz(func(t *testing.T, ref string) { checkReference(t, ref) })
}

// TestIndex compares which providers of a whole configuration are asked:
// regcred compiles all patterns into one index, the kubelet goes through them.
func TestIndex(t *testing.T) {
	asked := 0
	cases(t, 1_000, func(r *rand.Rand) bool {
		var images []string
		for len(images) < 20 {
			if repo, _, _, err := parsers.ParseImageName(image(r)); err == nil {
				images = append(images, repo)
			}
		}
		c := &config.Config{}
		opts := regcred.Options{BinDir: os.TempDir(), InProcess: map[string]plugin.Provider{}}
		for range 1 + r.IntN(20) {
			p := config.Provider{Name: "p" + string(rune('a'+len(c.Providers))), APIVersion: plugin.V1, DefaultCacheDuration: new(time.Duration)}
			for range 1 + r.IntN(10) {
				p.MatchImages = append(p.MatchImages, near(r, pick(r, images)))
			}
			p.MatchImages = slices.DeleteFunc(p.MatchImages, func(s string) bool {
				_, err := credentialprovider.ParseSchemelessURL(s)
				return err != nil // a kubelet does not start with these
			})
			if len(p.MatchImages) > 0 {
				c.Providers = append(c.Providers, p)
				opts.InProcess[p.Name] = answering(nil)
			}
		}
		k := open(t, c, opts)
		defer k.Close()
		for _, target := range images {
			got, want := attempted(t, k, target), allowed(c, target)
			asked += len(want)
			if !slices.Equal(got, want) {
				t.Errorf("image %q: providers %q are asked, by the kubelet %q", target, got, want)
				return false
			}
		}
		return true
	})
	if asked < 1000 {
		t.Errorf("only %d providers were asked", asked)
	}
}

// attempted returns provider and pattern of every attempt.
func attempted(t *testing.T, k *regcred.Keyring, repo string) (out []string) {
	res, err := k.Lookup(t.Context(), regcred.Request{Image: repo})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range res.Attempts {
		out = append(out, a.Provider+" "+a.Pattern)
	}
	return out
}

// allowed does what the kubelet's isImageAllowed does.
func allowed(c *config.Config, repo string) (out []string) {
	for _, p := range c.Providers {
		i := slices.IndexFunc(p.MatchImages, func(s string) bool {
			ok, _ := credentialprovider.URLsMatchStr(s, repo)
			return ok
		})
		if i >= 0 {
			out = append(out, p.Name+" "+p.MatchImages[i])
		}
	}
	return out
}
