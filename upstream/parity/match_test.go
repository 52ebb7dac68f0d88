// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/util/parsers"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/adapter"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/generate"
)

// checkMatch compares whether regcred and the kubelet match an image with a pattern.
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
	runCases(t, 1_000_000, func(r *rand.Rand) bool {
		c := generate.RandomMatchCase(r)
		pattern, target := string(c.Pattern), string(c.Image)
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
	for _, p := range corpus.MatchCases() {
		f.Add(string(p.Pattern), string(p.Image))
	}
	f.Fuzz(func(t *testing.T, pattern, target string) { checkMatch(t, pattern, target) })
}

// checkReference compares the normalized name of a raw image reference, and whether patterns can
// match it. A valid reference can contain a host that is invalid in a URL, such as [:::1].
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
	if _, err = location.Parse(got); (err != nil) != (wantErr != nil) {
		t.Errorf("repository %q: error %v, the kubelet's %v", got, err, wantErr)
		return false
	}
	return true
}

func TestReference(t *testing.T) {
	list := corpus.ImageReferences()
	valid := 0
	runCases(t, 200_000, func(r *rand.Rand) bool {
		ref := generate.RandomReference(r, list)
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
	for _, ref := range corpus.ImageReferences() {
		f.Add(ref)
	}
	f.Fuzz(func(t *testing.T, ref string) { checkReference(t, ref) })
}

// TestIndex compares which providers are called. regcred compiles all patterns of a configuration
// into one index, while the kubelet tries each pattern.
func TestIndex(t *testing.T) {
	asked := 0
	runCases(t, 1_000, func(r *rand.Rand) bool {
		var images []string
		for len(images) < 20 {
			if repo, _, _, err := parsers.ParseImageName(generate.RandomImage(r)); err == nil {
				images = append(images, repo)
			}
		}
		c := &config.Config{}
		opts := regcred.Options{BinDir: os.TempDir(), InProcess: map[string]plugin.Provider{}}
		for range 1 + r.IntN(20) {
			p := config.Provider{Name: "p" + string(rune('a'+len(c.Providers))), APIVersion: plugin.V1, DefaultCacheDuration: new(time.Duration)}
			for range 1 + r.IntN(10) {
				p.MatchImages = append(p.MatchImages, generate.RandomPatternFor(r, generate.PickElement(r, images)))
			}
			p.MatchImages = slices.DeleteFunc(p.MatchImages, func(s string) bool {
				_, err := credentialprovider.ParseSchemelessURL(s)
				return err != nil // a kubelet rejects these configurations
			})
			if len(p.MatchImages) > 0 {
				c.Providers = append(c.Providers, p)
				opts.InProcess[p.Name] = adapter.StaticProvider(nil)
			}
		}
		k := openKeyring(t, c, opts)
		defer k.Close()
		for _, target := range images {
			got, want := attemptedProviders(t, k, target), kubeletAttempts(c, target)
			asked += len(want)
			if !slices.Equal(got, want) {
				t.Errorf("image %q: providers %q are asked, by the kubelet %q", target, got, want)
				return false
			}
		}
		return true
	})
	if asked < 1000 {
		t.Errorf("only %d providers were called", asked)
	}
}

// attemptedProviders returns the provider and pattern of every attempt.
func attemptedProviders(t *testing.T, k *regcred.Keyring, repo string) (out []string) {
	res := must.Get(k.Lookup(t.Context(), regcred.Request{Image: repo}))(t)
	for _, a := range res.Attempts {
		out = append(out, a.Provider+" "+a.Pattern)
	}
	return out
}

// kubeletAttempts returns the provider and pattern of every attempt of the kubelet, like the kubelet's
// isImageAllowed.
func kubeletAttempts(c *config.Config, repo string) (out []string) {
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
