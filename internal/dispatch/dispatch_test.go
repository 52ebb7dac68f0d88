// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dispatch

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/runstats"
	"github.com/regcred/regcred/plugin"
)

// scriptedProvider describes a provider and its response or error. Without keys, the response has
// no credentials.
type scriptedProvider struct {
	patterns []string // default: "r.example"
	scope    plugin.CacheKeyType
	duration time.Duration // -1 means that the response sets no duration
	keys     []string
	err      error
	tokens   *config.TokenAttributes
}

const useDefault = time.Duration(-1)

// newScriptedProvider returns a dispatcher whose entry has these providers. more lists additional patterns of
// the entry.
func newScriptedProvider(list []scriptedProvider, more ...string) *Provider {
	p := &Provider{Config: &config.Config{}, MaxStale: 5 * time.Minute, Entry: entries.Entry{Name: entries.DispatcherName, MatchImages: more}}
	for i, s := range list {
		if s.patterns == nil {
			s.patterns = []string{"r.example"}
		}
		p.Config.Providers = append(p.Config.Providers, config.Provider{
			Name: fmt.Sprintf("p%d", i), MatchImages: s.patterns, APIVersion: plugin.V1, DefaultCacheDuration: new(time.Minute), TokenAttributes: s.tokens,
		})
		p.Entry.MatchImages = append(p.Entry.MatchImages, s.patterns...)
	}
	p.Plugin = func(c *config.Provider) plugin.Provider {
		i := slices.IndexFunc(p.Config.Providers, func(own config.Provider) bool { return own.Name == c.Name })
		return plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) { return list[i].newResponse(c.Name) })
	}
	return p
}

func (s scriptedProvider) newResponse(name string) (*plugin.Response, error) {
	if s.err != nil {
		return nil, s.err
	}
	resp := &plugin.Response{CacheKeyType: s.scope, Auth: map[string]plugin.AuthConfig{}}
	if s.duration != useDefault {
		resp.CacheDuration = &s.duration
	}
	for _, key := range s.keys {
		resp.Auth[key] = plugin.AuthConfig{Username: name, Password: plugin.NewSecret(canary.PasswordSecret)}
	}
	return resp, nil
}

func newRequest(image string) *plugin.Request {
	return &plugin.Request{APIVersion: plugin.V1, Image: image}
}

// TestScopeAndDuration verifies the scope and the duration of the merged response. Each case is a
// row of the table "Responses to the kubelet" in docs/node.md.
func TestScopeAndDuration(t *testing.T) {
	const image = "r.example/team/app"
	own := []string{"r.example"}
	broke := errors.New("it broke")
	for _, tt := range []struct {
		name string
		list []scriptedProvider
		more []string // additional patterns of the entry
		want string
	}{
		{"alone, for all", []scriptedProvider{{scope: plugin.CacheGlobal, duration: time.Minute, keys: own}}, nil, "Global 1m0s"},
		{"alone, but the entry is for more", []scriptedProvider{{scope: plugin.CacheGlobal, duration: time.Minute, keys: own}}, []string{"s.example"}, "Registry 1m0s"},
		{"alone, and the entry is for a part", []scriptedProvider{{scope: plugin.CacheGlobal, duration: time.Minute, keys: own}}, []string{"r.example/team"}, "Global 1m0s"},
		{"alone, with a key for more", []scriptedProvider{{scope: plugin.CacheGlobal, duration: time.Minute, keys: []string{"*.example"}}}, nil, "Registry 1m0s"},
		{"alone, with the key of Docker Hub", []scriptedProvider{{scope: plugin.CacheGlobal, duration: time.Minute, patterns: []string{"*.example", "index.docker.io"}, keys: []string{"https://index.docker.io/v1/"}}}, nil, "Registry 1m0s"},
		{"alone, with nothing", []scriptedProvider{{scope: plugin.CacheGlobal, duration: time.Minute}}, nil, "Global 1m0s"},
		{"another one in the entry", []scriptedProvider{{scope: plugin.CacheGlobal, duration: time.Minute, keys: own}, {patterns: []string{"s.example"}}}, nil, "Registry 1m0s"},
		{"another one in another entry", []scriptedProvider{{scope: plugin.CacheGlobal, duration: time.Minute, keys: own}, {patterns: []string{"s.example"}, tokens: someTokens("a")}}, nil, "Registry 1m0s"}, // in this test, its patterns are in the same entry
		{"two for the registry", []scriptedProvider{{scope: plugin.CacheRegistry, duration: time.Hour, keys: own}, {scope: plugin.CacheGlobal, duration: time.Minute, keys: []string{"*.example"}}}, nil, "Registry 1m0s"},
		{"one of two for the image", []scriptedProvider{{scope: plugin.CacheRegistry, duration: time.Hour, keys: own}, {scope: plugin.CacheImage, duration: time.Minute, keys: []string{"*.example"}}}, nil, "Image 1m0s"},
		{"pattern with a path", []scriptedProvider{{patterns: []string{"r.example/team"}, scope: plugin.CacheRegistry, duration: time.Minute, keys: own}}, nil, "Image 1m0s"},
		{"pattern with a path and one without", []scriptedProvider{{patterns: []string{"r.example/team", "*.example/"}, scope: plugin.CacheRegistry, duration: time.Minute, keys: own}}, nil, "Registry 1m0s"},
		{"another one for other paths of the host", []scriptedProvider{{scope: plugin.CacheRegistry, duration: time.Minute, keys: own}, {patterns: []string{"*.example/other"}}}, nil, "Image 1m0s"},
		{"another one for another port", []scriptedProvider{{scope: plugin.CacheRegistry, duration: time.Minute, keys: own}, {patterns: []string{"r.example:5000"}}}, nil, "Registry 1m0s"},
		{"one key of two", []scriptedProvider{{scope: plugin.CacheRegistry, duration: time.Minute, keys: own}, {scope: plugin.CacheRegistry, duration: time.Minute, keys: []string{"https://r.example/v1/"}}}, nil, "Image 1m0s"},
		{"one key twice", []scriptedProvider{{scope: plugin.CacheGlobal, duration: time.Minute, keys: []string{"r.example", "r.example/"}}}, nil, "Image 1m0s"},
		{"the provider's default", []scriptedProvider{{scope: plugin.CacheImage, duration: useDefault, keys: own}, {scope: plugin.CacheImage, duration: time.Hour}}, nil, "Image 1m0s"},
		{"no longer than a node may be behind", []scriptedProvider{{scope: plugin.CacheImage, duration: time.Hour, keys: own}}, nil, "Image 5m0s"},
		{"negative", []scriptedProvider{{scope: plugin.CacheImage, duration: -time.Hour, keys: own}, {scope: plugin.CacheImage, duration: time.Hour}}, nil, "Image 0s"},
		{"one failed", []scriptedProvider{{scope: plugin.CacheRegistry, duration: time.Hour, keys: own}, {err: broke}}, nil, "Image 0s"},
		{"nobody serves it", []scriptedProvider{{patterns: []string{"s.example"}}}, []string{"r.example"}, "Image 0s"},
		{"no providers", nil, []string{"r.example"}, "Image 0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newScriptedProvider(tt.list, tt.more...)
			resp := must.Get(p.GetCredentials(t.Context(), newRequest(image)))(t)
			if got := fmt.Sprint(resp.CacheKeyType, " ", *resp.CacheDuration); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func someTokens(audience string) *config.TokenAttributes {
	return &config.TokenAttributes{ServiceAccountTokenAudience: audience, CacheType: config.CachePerToken, RequireServiceAccount: new(true)}
}

// TestKeys verifies that the keys of the merged response make the kubelet try the credentials in
// the providers' order.
func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		name, image string
		keys        [][]string // keys that each provider returns
		want        string     // KEY=PROVIDER, in the order in which the kubelet tries the keys
		left        int
	}{
		{"their own", "r.example/t/app", [][]string{{"r.example"}, {"*.example"}, {"r.example/t"}}, "r.example/t=p2 r.example=p0 *.example=p1", 0},
		{"two have one", "r.example/t/app", [][]string{{"r.example"}, {"r.example"}}, "r.example/t=p0 r.example=p1", 0},
		{"spelled in two ways", "r.example/t/app", [][]string{{"https://r.example/v1/"}, {"r.example/"}}, "r.example/t=p0 r.example=p1", 0},
		{"room is made above", "r.example/t/app", [][]string{{"r.example", "r.example/t"}, {"r.example"}, {"r.example"}}, "r.example/t/a=p0 r.example/t/=p0 r.example/t=p1 r.example=p2", 0},
		{"with a glob", "r.example/t", [][]string{{"*.example"}, {"*.example"}}, "*.example/t=p0 *.example=p1", 0},
		{"no room above", "r.example/ab", [][]string{{"r.example/ab"}, {"r.example/ab"}}, "r.example/ab=p0 r.example/a=p1", 0},
		{"no room at all", "r.example/a", [][]string{{"r.example"}, {"r.example"}, {"r.example"}}, "r.example/a=p0 r.example=p1", 1},
		{"v1 in the path", "r.example/v1/x", [][]string{{"r.example/v1/v1/x"}, {"r.example/v2/v1/x"}}, "r.example/v2/v1/x=p0 r.example/v2/v1/=p1", 0},
		{"v2 in the path", "r.example/v2", [][]string{{"r.example/v2"}, {"r.example/v2"}}, "r.example/v2=p0 r.example/v=p1", 0},
		{"an address in brackets", "[::1]/app", [][]string{{"*"}, {"*"}}, "*/a=p0 *=p1", 0},
		{"an address in brackets without room", "[::1]/ab", [][]string{{"*/ab"}, {"*/ab"}, {"*/a"}}, "*/ab=p0 */a=p1 *=p2", 0},
		{"an address with a port", "[::1]:5000/app", [][]string{{"[::1]:5000"}, {"[::1]:5000"}}, "[::1]:5000/a=p0 [::1]:5000=p1", 0},
		{"Docker Hub's own", "docker.io/library/nginx", [][]string{{"https://index.docker.io/v1/"}}, "index.docker.io=p0", 0},
		{"Docker Hub's own twice", "docker.io/library/nginx", [][]string{{"https://index.docker.io/v1/"}, {"index.docker.io"}}, "docker.io/library/nginx=p0 docker.io/library/ngin=p1", 0},
		{"decoded", "r.example/t/app", [][]string{{"r.example/%74/a"}, {"r.example/t/a?q"}}, "r.example/t/ap=p0 r.example/t/a=p1", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var list []scriptedProvider
			for _, keys := range tt.keys {
				list = append(list, scriptedProvider{patterns: []string{"*.example", "docker.io", "*", "*:5000"}, scope: plugin.CacheImage, keys: keys})
			}
			p := newScriptedProvider(list)
			left := 0
			p.Observe = func(o Outcome) { left = o.Dropped }
			resp := must.Get(p.GetCredentials(t.Context(), newRequest(tt.image)))(t)
			var got []string
			for _, key := range slices.Backward(slices.SortedFunc(maps.Keys(resp.Auth), byNormalised)) {
				got = append(got, key+"="+resp.Auth[key].Username)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" || left != tt.left {
				t.Errorf("left %d, want %d; (-want +got)\n%s", left, tt.left, diff)
			}
		})
	}
}

// byNormalised compares keys by their normalized text. It is sufficient only for the keys in these
// tests.
func byNormalised(a, b string) int {
	return strings.Compare(strings.Replace(a, "/v2/v", "/v", 1), strings.Replace(b, "/v2/v", "/v", 1))
}

// TestFailures verifies that all failures are reported if no provider returned a credential.
func TestFailures(t *testing.T) {
	var seen Outcome
	p := newScriptedProvider([]scriptedProvider{{err: errors.New("disk on fire")}, {scope: plugin.CacheImage, duration: time.Hour}, {err: errors.New("no route")}})
	p.Observe = func(o Outcome) { seen = o }
	_, err := p.GetCredentials(t.Context(), newRequest("r.example/app"))
	if _, ok := errors.AsType[*regcred.LookupError](err); !ok || !strings.Contains(err.Error(), "disk on fire") || !strings.Contains(err.Error(), "no route") {
		t.Errorf("got %v", err)
	}
	b := seen.CounterBatch()
	want := []string{"p0 exec", "p1 none", "p2 exec"}
	if got := runResults(b); b.Err == "" || !slices.Equal(got, want) {
		t.Errorf("counted %q, %q", b.Err, got)
	}
	if _, err := p.GetCredentials(t.Context(), newRequest("R.example/Team")); err == nil {
		t.Error("no image: no error")
	}
}

func runResults(b runstats.Batch) (list []string) {
	for _, r := range b.Runs {
		list = append(list, r.Provider+" "+r.Result)
	}
	return list
}

// TestWithoutCacheType verifies tokenAttributes without a cacheType. Kubelet 1.33 accepts only
// these, and does not check whether a plugin returns the token.
func TestWithoutCacheType(t *testing.T) {
	attributes := &config.TokenAttributes{ServiceAccountTokenAudience: "aud", RequireServiceAccount: new(true)}
	p := newScriptedProvider([]scriptedProvider{{scope: plugin.CacheImage, tokens: attributes}})
	p.Entry.TokenAttributes = attributes
	p.Plugin = func(*config.Provider) plugin.Provider {
		return plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
			auth := map[string]plugin.AuthConfig{"r.example": {Username: "u", Password: req.ServiceAccountToken}}
			return &plugin.Response{CacheKeyType: plugin.CacheImage, Auth: auth}, nil
		})
	}
	req := newRequest("r.example/app")
	req.ServiceAccountToken = plugin.NewSecret("e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":["aud"]}`)) + ".c2ln")
	resp, err := p.GetCredentials(t.Context(), req)
	if err != nil || !resp.Auth["r.example"].Password.Equal(req.ServiceAccountToken) {
		t.Errorf("got %v, %v", resp, err)
	}
	if p.Config.Providers[0].TokenAttributes.CacheType != "" {
		t.Error("the caller's configuration was changed")
	}
}

// TestEventsHideSecrets verifies that an Outcome contains no password.
func TestEventsHideSecrets(t *testing.T) {
	p := newScriptedProvider([]scriptedProvider{{scope: plugin.CacheImage, keys: []string{"r.example"}}})
	var seen Outcome
	p.Observe = func(o Outcome) { seen = o }
	must.Get(p.GetCredentials(t.Context(), newRequest("r.example/app")))(t)
	if text := fmt.Sprintf("%+v %+v", seen, seen.CounterBatch()); strings.Contains(text, canary.PasswordSecret) {
		t.Error("it does")
	}
}

// TestEntryForRequest verifies that findEntry returns the entry with the exact name, merges equal
// entries, and returns an error otherwise.
func TestEntryForRequest(t *testing.T) {
	all := []entries.Entry{
		{Name: "one", MatchImages: []string{"a.example"}},
		{Name: "two", MatchImages: []string{"b.example"}, TokenAttributes: someTokens("a")},
		{Name: "one", MatchImages: []string{"c.example"}},
		{Name: "twice"}, {Name: "twice", TokenAttributes: someTokens("a")},
	}
	for name, want := range map[string]string{
		"one":   `[a.example c.example]`,
		"two":   `[b.example]`,
		"three": `the kubelet's configuration has no entry named "three", the name that this program was run as`,
		"twice": `two entries named "twice" with different tokenAttributes`,
	} {
		e, err := findEntry(all, name)
		if got := fmt.Sprint(e.MatchImages, err); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// TestNoProvider verifies that an entry whose last provider was removed gets an empty response, which the kubelet does
// not cache, so that a new provider is used at once.
func TestNoProvider(t *testing.T) {
	p := newScriptedProvider(nil, "r.example")
	resp := must.Get(p.GetCredentials(t.Context(), newRequest("r.example/app")))(t)
	if len(resp.Auth) != 0 || resp.CacheKeyType != plugin.CacheImage || resp.CacheDuration == nil || *resp.CacheDuration != 0 {
		t.Errorf("got %+v", resp)
	}
}
