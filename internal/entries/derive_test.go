// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// newTokenAttributes returns tokenAttributes for an audience, with required annotation keys.
func newTokenAttributes(audience string, keys ...string) *config.TokenAttributes {
	return &config.TokenAttributes{
		ServiceAccountTokenAudience: audience, CacheType: config.CachePerServiceAccount,
		RequireServiceAccount: new(true), RequiredServiceAccountAnnotationKeys: keys,
	}
}

func newProvider(t *config.TokenAttributes, patterns ...string) config.Provider {
	return config.Provider{Name: "p", MatchImages: patterns, TokenAttributes: t}
}

func newEntry(n int, t *config.TokenAttributes, patterns ...string) Entry {
	return Entry{Name: NumberedName(n), APIVersion: plugin.V1, MatchImages: patterns, TokenAttributes: t}
}

func TestDerive(t *testing.T) {
	x, y := newTokenAttributes("x", "a/1", "b/2"), newTokenAttributes("y")
	tests := map[string]struct {
		providers []config.Provider
		options   Options
		want      []Entry
	}{
		"nothing": {},
		"one for each tokenAttributes": {
			providers: []config.Provider{newProvider(nil, "a.example"), newProvider(x, "*.b.example"), newProvider(nil, "c.example", "a.example"), newProvider(newTokenAttributes("x", "b/2", "a/1"), "d.example"), newProvider(y, "e.example")},
			want:      []Entry{newEntry(1, nil, "a.example", "c.example"), newEntry(2, x, "*.b.example", "d.example"), newEntry(3, y, "e.example")},
		},
		"what another covers": {
			providers: []config.Provider{newProvider(nil, "a.b.example", "b.example", "*.b.example/", "c.example/team", "c.example", "b.example/", "b.example:5000")},
			want:      []Entry{newEntry(1, nil, "b.example", "*.b.example/", "c.example", "b.example:5000")},
		},
		"names are kept": {
			providers: []config.Provider{newProvider(nil, "a.example"), newProvider(y, "e.example"), newProvider(x, "b.example")},
			options:   Options{KnownEntries: []Entry{newEntry(1, x, "z.example")}},
			want:      []Entry{newEntry(1, x, "b.example"), newEntry(2, nil, "a.example"), newEntry(3, y, "e.example")},
		},
		"a name is given to nothing else": {
			providers: []config.Provider{newProvider(y, "e.example")},
			options:   Options{KnownEntries: []Entry{newEntry(1, x, "z.example"), {Name: "other"}, newEntry(3, nil, "z.example")}},
			want:      []Entry{newEntry(2, y, "e.example")},
		},
		"the first that has a name owns it": {
			providers: []config.Provider{newProvider(y, "e.example"), newProvider(x, "b.example")},
			options:   Options{KnownEntries: []Entry{newEntry(2, x), newEntry(2, y), newEntry(4, x), newEntry(3, y)}},
			want:      []Entry{newEntry(2, x, "b.example"), newEntry(3, y, "e.example")},
		},
		"reserved": {
			providers: []config.Provider{newProvider(x, "b.r.example", "b.example:5000")},
			options:   Options{ReservedPatterns: []string{"*.r.example"}},
			want:      []Entry{newEntry(1, x, "*.r.example", "b.example:5000"), newEntry(2, nil, "*.r.example")},
		},
		"one of the predecessor": {
			providers: []config.Provider{{Name: "p", APIVersion: plugin.OutOfTree, MatchImages: []string{"a.example"}}},
			want:      []Entry{newEntry(1, nil, "a.example")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Derive(tt.providers, tt.options)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestDeriveErrors(t *testing.T) {
	one := []config.Provider{newProvider(nil, "a.example")}
	x := []config.Provider{newProvider(newTokenAttributes("x"), "a.example")}
	tests := map[string]struct {
		providers []config.Provider
		options   Options
		want      string
	}{
		"a reserved pattern":   {one, Options{ReservedPatterns: []string{"u:secret@[x"}}, `"…@[x" cannot be reserved: missing ]`},
		"a provider's":         {[]config.Provider{newProvider(nil, "[")}, Options{}, `reject the entry "regcred-credential-provider": providers[0].matchImages[0]: invalid pattern`},
		"an old kubelet":       {one, Options{Target: config.Target{KubeletVersion: "1.25"}}, "kubelet 1.25 does not support this version of the protocol"},
		"tokens, too old":      {append(one, x...), Options{Target: config.Target{KubeletVersion: "1.32"}}, `entry "regcred-credential-provider-2": providers[0].tokenAttributes: kubelet 1.32 does not support tokenAttributes`},
		"not a version":        {one, Options{Target: config.Target{KubeletVersion: "2"}}, `kubelet version "2"`},
		"provider without":     {[]config.Provider{newProvider(nil)}, Options{}, "matchImages: missing"},
		"no audience (zero T)": {[]config.Provider{newProvider(&config.TokenAttributes{}, "a.example")}, Options{}, "serviceAccountTokenAudience: missing"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := Derive(tt.providers, tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestEntryCoversAnyHost verifies that an entry with AnyImage matches images on any host, but only
// on the ports that other patterns contain.
func TestEntryCoversAnyHost(t *testing.T) {
	got, err := Derive([]config.Provider{newProvider(nil, "a.example", "a.example:5000", "*.b.example:5000", strings.Repeat("a.", 16)+"example")}, Options{AnyImage: true})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	for image, want := range map[string]bool{
		"nginx":              true,
		"localhost/x":        true,
		"10.0.0.1/x":         true,
		"[2001:db8::1]/x":    true,
		"registry.example/x": true,
		"Registry.Example/x": true,
		"123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com/x": true,
		"vpce-0-1.dkr.ecr.us-east-1.vpce.amazonaws.com/x":         true,
		strings.Repeat("a.", 15) + "example/x":                    true,
		strings.Repeat("a.", 16) + "example/x":                    true, // matched by the provider's own pattern
		strings.Repeat("b.", 16) + "example/x":                    false,
		"a.example:5000/x":                                        true,
		"x.b.example:5000/x":                                      true,
		"other.example:5000/x":                                    false,
		"localhost:5000/x":                                        false,
		"[2001:db8::1]:5000/x":                                    false,
	} {
		repository := must.Get(match.Repository(image))(t)
		matches := slices.ContainsFunc(got[0].MatchImages, func(s string) bool {
			p, err := match.Parse(s)
			return err == nil && p.Match(repository)
		})
		if matches != want {
			t.Errorf("%s: got %v, want %v", image, matches, want)
		}
	}
	if want := maxAnyImageLabels + 3; len(got[0].MatchImages) != want {
		t.Errorf("%d patterns, want %d: %q", len(got[0].MatchImages), want, got[0].MatchImages)
	}
}

// TestSameTokens verifies that tokenAttributes are equivalent if only the order of their annotation
// keys differs.
func TestSameTokens(t *testing.T) {
	base := func() *config.TokenAttributes {
		t := newTokenAttributes("x", "a/1", "b/2")
		t.OptionalServiceAccountAnnotationKeys = []string{"c/3", "d/4"}
		return t
	}
	for name, tt := range map[string]struct {
		change func(*config.TokenAttributes)
		want   bool
	}{
		"nothing":        {func(t *config.TokenAttributes) {}, true},
		"order required": {func(t *config.TokenAttributes) { slices.Reverse(t.RequiredServiceAccountAnnotationKeys) }, true},
		"order optional": {func(t *config.TokenAttributes) { slices.Reverse(t.OptionalServiceAccountAnnotationKeys) }, true},
		"a key less":     {func(t *config.TokenAttributes) { t.RequiredServiceAccountAnnotationKeys = []string{"a/1"} }, false},
		"another key":    {func(t *config.TokenAttributes) { t.OptionalServiceAccountAnnotationKeys[0] = "C/3" }, false},
		"optional moved": {func(t *config.TokenAttributes) {
			t.RequiredServiceAccountAnnotationKeys, t.OptionalServiceAccountAnnotationKeys = t.OptionalServiceAccountAnnotationKeys, t.RequiredServiceAccountAnnotationKeys
		}, false},
		"audience": {func(t *config.TokenAttributes) { t.ServiceAccountTokenAudience = "y" }, false},
		"cache":    {func(t *config.TokenAttributes) { t.CacheType = config.CachePerToken }, false},
		"require":  {func(t *config.TokenAttributes) { t.RequireServiceAccount = new(false) }, false},
		"unsaid":   {func(t *config.TokenAttributes) { t.RequireServiceAccount = nil }, false},
	} {
		other := base()
		tt.change(other)
		if got := equivalentTokens(base(), other); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	if equivalentTokens(base(), nil) || equivalentTokens(nil, base()) || !equivalentTokens(nil, nil) {
		t.Error("no tokenAttributes are not distinguished from some")
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]int{
		"regcred-credential-provider": 1, "regcred-credential-provider-2": 2, "regcred-credential-provider-10": 10,
		"regcred-credential-provider-1": 0, "regcred-credential-provider-02": 0, "regcred-credential-provider-0": 0,
		"regcred-credential-provider-": 0, "regcred-credential-provider-2.exe": 0, "xregcred-credential-provider": 0, "": 0,
		"regcred-credential-provider-99999999999999999999": 0, "regcred-credential-provider-2\n": 0,
	} {
		got := entryNumber(name)
		if got != want || got > 0 && NumberedName(got) != name {
			t.Errorf("%q: got %d, want %d", name, got, want)
		}
	}
}
