// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// staticProvider returns the same response to every request, without delay.
type staticProvider plugin.Response

func (s staticProvider) GetCredentials(context.Context, *plugin.Request) (*plugin.Response, error) {
	resp := plugin.Response(s)
	return &resp, nil
}

func authForUsers(auth ...string) map[string]plugin.AuthConfig {
	m := map[string]plugin.AuthConfig{}
	for i := 0; i < len(auth); i += 2 {
		m[auth[i]] = plugin.AuthConfig{Username: auth[i+1], Password: plugin.NewSecret(canary.PasswordSecret)}
	}
	return m
}

// newProvidersKeyring returns a keyring with the providers p0, p1, … Each provider matches every image
// whose host has one to three labels.
func newProvidersKeyring(t testing.TB, opts Options, answers ...plugin.Provider) *Keyring {
	t.Helper()
	c := &config.Config{}
	opts.BinDir, opts.InProcess = "none", map[string]plugin.Provider{}
	for i, a := range answers {
		name := fmt.Sprint("p", i)
		c.Providers = append(c.Providers, config.Provider{
			Name: name, MatchImages: []string{"*", "*.*", "*.*.*", "*:5000", "*.*:5000"},
			DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1,
		})
		opts.InProcess[name] = a
	}
	k := must.Get(New(c, opts))(t)
	t.Cleanup(func() { k.Close() })
	return k
}

// formatCredentials formats credentials as "key=user", in order.
func formatCredentials(res *Result) string {
	var b strings.Builder
	for _, c := range res.Credentials {
		fmt.Fprintf(&b, "%s=%s ", c.Match, c.Username)
	}
	return strings.TrimSpace(b.String())
}

func TestLookupOrder(t *testing.T) {
	registry := func(auth ...string) staticProvider {
		return staticProvider{CacheKeyType: plugin.CacheRegistry, Auth: authForUsers(auth...)}
	}
	tests := []struct {
		name, image string
		answers     []plugin.Provider
		want        string
	}{
		{"longer keys first, no glob before a glob", "r.io/team/app",
			[]plugin.Provider{registry("*.io", "a", "r.io", "b", "r.io/team", "c", "r.io/other", "d")}, "r.io/team=c r.io=b *.io=a"},
		{"provider order within a key", "r.io/x",
			[]plugin.Provider{registry("r.io", "a"), registry("r.io", "b", "r.io/x", "c")}, "r.io/x=c r.io=a r.io=b"},
		{"schemes, user and versions are dropped", "r.io/x",
			[]plugin.Provider{registry("https://r.io/v1/", "a"), registry("http://u@r.io/v2/?q", "b"), registry("r.io/", "c"), registry("r.io/v1/x", "d")}, "r.io/x=d r.io=a r.io=b r.io=c"},
		{"keys that become the same, in the order of their text", "r.io/x",
			[]plugin.Provider{registry("r.io/", "c", "https://r.io/v1/", "a", "r.io", "b")}, "r.io=a r.io=b r.io=c"},
		{"upper-case scheme is a host", "r.io/x", []plugin.Provider{registry("HTTPS://r.io", "a")}, ""},
		{"bad keys are dropped alone", "r.io/x", []plugin.Provider{registry("r.io:80:80", "a", "r.io/%zz", "b", "r.io", "c")}, "r.io=c"},
		{"a path is decoded twice", "r.io/a", []plugin.Provider{registry("r.io/%2561", "a")}, "r.io/%61=a"},
		{"docker hub", "nginx:1.25", []plugin.Provider{registry("https://index.docker.io/v1/", "a"), registry("index.docker.io", "b")}, "index.docker.io=a index.docker.io=b"},
		{"docker hub only if nothing else", "nginx", []plugin.Provider{registry("index.docker.io", "a"), registry("docker.io", "b")}, "docker.io=b"},
		{"docker hub for a host without dot", "localhost/x", []plugin.Provider{registry("index.docker.io", "a")}, "index.docker.io=a"},
		{"no docker hub for others", "r.io/x", []plugin.Provider{registry("index.docker.io", "a")}, ""},
		{"empty user name and password", "r.io/x", []plugin.Provider{registry("r.io", "")}, "r.io="},
		{"port", "r.io:5000/x", []plugin.Provider{registry("r.io:5000", "a", "r.io", "b")}, "r.io:5000=a"},
		{"nothing", "r.io/x", []plugin.Provider{registry()}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newProvidersKeyring(t, Options{}, tt.answers...)
			for range 2 { // the second lookup uses the cache
				res := must.Get(k.Lookup(t.Context(), Request{Image: tt.image}))(t)
				if got := formatCredentials(res); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

func newPullSecret(kind, key, data string) PullSecret {
	return PullSecret{Namespace: "ns", Name: "s", UID: "u", Type: kind, Data: map[string][]byte{key: []byte(data)}}
}

func TestLookupThreeKeyrings(t *testing.T) {
	home := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(home, ".docker"), 0o700))
	file := filepath.Join(home, ".docker", "config.json")
	if err := os.WriteFile(file, []byte(`{"auths":{"r.io/x":{"username":"node","password":"`+canary.PasswordSecret+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := Options{Sources: []Source{NodeDockerConfig(NodePaths{RootDir: t.TempDir(), Home: home})}}
	k := newProvidersKeyring(t, opts, staticProvider{CacheKeyType: plugin.CacheRegistry, Auth: authForUsers("r.io/x/y", "plugin")})
	secrets := []PullSecret{
		newPullSecret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", `{"auths":{"r.io":{"username":"s1","password":"`+canary.PasswordSecret+`"}}}`),
		newPullSecret("Opaque", ".dockerconfigjson", `{"auths":{"r.io":{"username":"s2"}}}`),
		newPullSecret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", `{"auths":{"r.io":{"auth":"`+canary.PasswordSecret+`"}}}`),
		newPullSecret("kubernetes.io/dockercfg", ".dockercfg", `{"r.io/x":{"username":"s4"}}`),
	}
	res := must.Get(k.Lookup(t.Context(), Request{Image: "r.io/x/y", PullSecrets: secrets}))(t)
	if got, want := formatCredentials(res), "r.io/x=s4 r.io=s1 r.io/x=node r.io/x/y=plugin"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	wantSources := []Origin{
		{Kind: FromPullSecret, PullSecret: &ObjectRef{"ns", "s", "u"}},
		{Kind: FromPullSecret, PullSecret: &ObjectRef{"ns", "s", "u"}},
		{Kind: FromNode, File: file},
		{Kind: FromProvider},
	}
	for i, c := range res.Credentials {
		if diff := cmp.Diff(wantSources[i], c.Origin); diff != "" {
			t.Errorf("credential %d: source (-want +got):\n%s", i, diff)
		}
	}
	var stages []string
	for _, a := range res.Attempts {
		stages = append(stages, fmt.Sprintf("%s %s %q", a.Kind, a.Provider, a.Stage))
	}
	want := []string{`pullSecret ns/s ""`, `pullSecret ns/s "source"`, `pullSecret ns/s ""`, `node node docker config ""`, `provider p0 ""`}
	if diff := cmp.Diff(want, stages); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	canary.AssertAbsent(t, "result", fmt.Sprintf("%v %+v %#v", res, res, res))
}

func TestNodeDockerConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, work, home := t.TempDir(), t.TempDir(), t.TempDir()
		write := func(dir, name, content string) {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		write(root, "config.json", `{"auths":`+canary.PasswordSecret) // not valid JSON, so the file is skipped
		write(work, ".dockercfg", `{"r.io":{"username":"legacy"}}`)
		s := NodeDockerConfig(NodePaths{RootDir: root, WorkDir: work, Home: home})
		sets, err := s.Auths(t.Context(), "r.io/x")
		if len(sets) != 1 || sets[0].Auths["r.io"].Username != "legacy" {
			t.Errorf("got %d sets, want the one of .dockercfg", len(sets))
		}
		if want := filepath.Join(root, "config.json") + ": line 1, column 10: not JSON from here on"; fmt.Sprint(err) != want {
			t.Errorf("error %v, want %s", err, want)
		}
		write(work, "config.json", `{"auths":{"r.io":{"username":"new"}}}`)
		time.Sleep(5 * time.Minute)
		if sets, _ = s.Auths(t.Context(), "r.io/x"); sets[0].Auths["r.io"].Username != "legacy" {
			t.Error("read again before five minutes were over")
		}
		time.Sleep(time.Second)
		if sets, _ = s.Auths(t.Context(), "r.io/x"); sets[0].Auths["r.io"].Username != "new" {
			t.Error("not read again after five minutes")
		}
	})
}

// TestNodeDockerConfigCanceled verifies that a canceled lookup does not affect later lookups.
func TestNodeDockerConfigCanceled(t *testing.T) {
	root := t.TempDir()
	data := `{"auths":{"r.io":{"username":"u","password":"` + canary.PasswordSecret + `"}}}`
	must.Do(t, os.WriteFile(filepath.Join(root, "config.json"), []byte(data), 0o600))
	s := NodeDockerConfig(NodePaths{RootDir: root})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Auths(ctx, "r.io/x"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if sets, err := s.Auths(t.Context(), "r.io/x"); err != nil || len(sets) != 1 {
		t.Errorf("the next one: %d sets, %v", len(sets), err)
	}
}

func TestBrokenSourceIsNoAnonymousPull(t *testing.T) {
	root := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(root, "config.json"), 0o700))
	k := newProvidersKeyring(t, Options{Sources: []Source{NodeDockerConfig(NodePaths{RootDir: root})}})
	_, err := k.Lookup(t.Context(), Request{Image: "r.io/x"})
	want := "no credentials for r.io/x: node docker config: " + filepath.Join(root, "config.json") + ": is a directory, not a regular file"
	if fmt.Sprint(err) != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
}

func TestLookupRegistry(t *testing.T) {
	k := newProvidersKeyring(t, Options{}, staticProvider{CacheKeyType: plugin.CacheImage, Auth: authForUsers("r.io", "host", "r.io/x", "path", "index.docker.io", "hub")})
	for registry, want := range map[string]string{"r.io": "r.io=host", "gcr.io": "", "docker.io": "index.docker.io=hub", "registry-1.docker.io": "index.docker.io=hub", "localhost": ""} {
		res, err := k.Lookup(t.Context(), Request{Registry: registry})
		if err != nil {
			t.Errorf("%s: %v", registry, err)
		} else if got := formatCredentials(res); got != want {
			t.Errorf("%s: got %q, want %q", registry, got, want)
		}
	}
}

func TestLookupInvalidRequest(t *testing.T) {
	k := newProvidersKeyring(t, Options{})
	for want, req := range map[string]Request{
		`image "": invalid reference format`:                                              {},
		`a request must name either an image or a registry, not both`:                     {Image: "a", Registry: "b.io"},
		`registry "r.io/x": must be host[:port], such as registry.example:5000`:           {Registry: "r.io/x"},
		`image "r.io/X": invalid reference format: repository name (X) must be lowercase`: {Image: "r.io/X"},
		`image "a b": invalid reference format`:                                           {Image: "a b"},
	} {
		res, err := k.Lookup(t.Context(), req)
		if fmt.Sprint(err) != want || res != nil {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestFailureIsData(t *testing.T) {
	boom := plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) { return nil, errors.New("boom") })
	var mu sync.Mutex
	var events []EventKind
	observer := func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e.Kind)
	}
	k := newProvidersKeyring(t, Options{Observer: observer}, boom, staticProvider{CacheKeyType: plugin.CacheImage})
	res, err := k.Lookup(t.Context(), Request{Image: "r.io/x"})
	var lookup *LookupError
	if !errors.As(err, &lookup) || res == nil || len(lookup.Failed) != 1 || lookup.Failed[0].Provider != "p0" {
		t.Fatalf("got %v, want a LookupError for p0 and the result", err)
	}
	if want := `no credentials for r.io/x: plugin "p0": exec: boom`; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if a := res.Attempts; a[0].Stage != plugin.StageExec || a[1].Err != nil || a[1].Cache != CacheMiss {
		t.Errorf("attempts %+v", a)
	}
	counts := map[EventKind]int{}
	for _, e := range events {
		counts[e]++
	}
	if diff := cmp.Diff(map[EventKind]int{EventExec: 2, EventFailure: 1, EventCacheMiss: 1}, counts); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}

	k = newProvidersKeyring(t, Options{}, boom, staticProvider{CacheKeyType: plugin.CacheImage, Auth: authForUsers("r.io", "u")})
	if res, err := k.Lookup(t.Context(), Request{Image: "r.io/x"}); err != nil || formatCredentials(res) != "r.io=u" || res.Attempts[0].Err == nil {
		t.Errorf("a failure hides another provider's credentials: %v", err)
	}
}

func TestMissingExecutableIsAnAttempt(t *testing.T) {
	k := must.Get(New(oneProviderConfig(nil), Options{BinDir: t.TempDir()}))(t)
	defer k.Close()
	res, err := k.Lookup(t.Context(), Request{Image: "r.example/x"})
	var lookup *LookupError
	if !errors.As(err, &lookup) || res.Attempts[0].Stage != plugin.StageStart {
		t.Errorf("got %v, want a LookupError at stage start", err)
	}
}

func TestProvidersRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func() *recordingProvider {
			return &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		}
		c := &config.Config{}
		in := map[string]plugin.Provider{}
		for i := range 3 {
			name := fmt.Sprint("p", i)
			in[name] = slow()
			c.Providers = append(c.Providers, config.Provider{Name: name, MatchImages: []string{"r.io"}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1})
		}
		k := must.Get(New(c, Options{BinDir: "none", InProcess: in}))(t)
		defer k.Close()
		begin := time.Now()
		if res, err := k.Lookup(t.Context(), Request{Image: "r.io/x"}); err != nil || len(res.Credentials) != 3 {
			t.Errorf("%v", err)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("three providers took %v, want the second that one takes", took)
		}
	})
}

func TestInProcessDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forever := make(chan struct{})
		deaf := plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) { <-forever; return nil, nil })
		k, err := New(oneProviderConfig(nil), Options{BinDir: "none", InProcess: map[string]plugin.Provider{"p": deaf}, Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		res, err := k.Lookup(t.Context(), Request{Image: "r.example/x"})
		if err == nil || res.Attempts[0].Stage != plugin.StageTimeout {
			t.Errorf("got %v, want a timeout", err)
		}
		k.Close()
		close(forever)
	})
}

func TestCacheDurations(t *testing.T) {
	tests := []struct {
		name     string
		response staticProvider
		wait     time.Duration
		execs    int
	}{
		{"nil is the default of an hour", staticProvider{CacheKeyType: plugin.CacheImage, Auth: authForUsers("r.example", "u")}, time.Hour, 1},
		{"and ends after it", staticProvider{CacheKeyType: plugin.CacheImage, Auth: authForUsers("r.example", "u")}, time.Hour + 1, 2},
		{"own duration", staticProvider{CacheKeyType: plugin.CacheImage, CacheDuration: new(time.Minute), Auth: authForUsers("r.example", "u")}, time.Minute + 1, 2},
		{"0 is not replaced by the default", staticProvider{CacheKeyType: plugin.CacheImage, CacheDuration: new(time.Duration(0)), Auth: authForUsers("r.example", "u")}, 0, 2},
		{"negative", staticProvider{CacheKeyType: plugin.CacheImage, CacheDuration: new(-time.Hour), Auth: authForUsers("r.example", "u")}, 0, 2},
		{"huge", staticProvider{CacheKeyType: plugin.CacheImage, CacheDuration: new(time.Duration(1<<63 - 1)), Auth: authForUsers("r.example", "u")}, 24 * 365 * time.Hour, 1},
		{"empty answers are kept", staticProvider{CacheKeyType: plugin.CacheGlobal}, time.Minute, 1},
		{"but a minute only", staticProvider{CacheKeyType: plugin.CacheGlobal}, time.Minute + 1, 2},
		{"or less", staticProvider{CacheKeyType: plugin.CacheGlobal, CacheDuration: new(time.Second)}, time.Second + 1, 2},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			execs := 0
			k, err := New(oneProviderConfig(nil), Options{BinDir: "none", InProcess: map[string]plugin.Provider{"p": plugin.ProviderFunc(
				func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
					execs++
					return tt.response.GetCredentials(ctx, req)
				})}})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			for range 2 {
				must.Get(k.Lookup(t.Context(), Request{Image: "r.example/x"}))(t)
				time.Sleep(tt.wait)
			}
			if execs != tt.execs {
				t.Errorf("%s: %d execs, want %d", tt.name, execs, tt.execs)
			}
		})
	}
}

func TestCacheScopes(t *testing.T) {
	for scope, want := range map[plugin.CacheKeyType]int{plugin.CacheImage: 3, plugin.CacheRegistry: 2, plugin.CacheGlobal: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := &recordingProvider{answer: newPluginResponder(scope, time.Hour, "*.example")}
			k := newRecordingKeyring(t, s, nil, nil)
			defer k.Close()
			for _, image := range []string{"a.example/x", "a.example/y", "a.example/x:tag", "b.example/x", "b.example/x@sha256:" + strings.Repeat("0", 64)} {
				must.Get(k.Lookup(t.Context(), Request{Image: image}))(t)
			}
			if s.execs() != want {
				t.Errorf("%s: %d execs, want %d", scope, s.execs(), want)
			}
		})
	}
}

func TestCacheIsBounded(t *testing.T) {
	evicted := 0
	k := newProvidersKeyring(t, Options{MaxCacheEntries: 10, Observer: func(e Event) {
		if e.Kind == EventEvict {
			evicted++
		}
	}}, staticProvider{CacheKeyType: plugin.CacheImage, Auth: authForUsers("r.io", "u")})
	for i := range 100 {
		must.Get(k.Lookup(t.Context(), Request{Image: fmt.Sprint("r.io/", i)}))(t)
	}
	if n := len(k.compiled.Load().runners[0].cache.entries); n != 10 || evicted != 90 {
		t.Errorf("%d entries, %d evicted; want 10, 90", n, evicted)
	}
}

func TestCacheForgetsWhatExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newRecordingKeyring(t, &recordingProvider{answer: newPluginResponder(plugin.CacheImage, time.Minute, "")}, nil, nil)
		defer k.Close()
		for _, req := range imageRequests(5, "r.example/%d") {
			must.Get(k.Lookup(t.Context(), req))(t)
		}
		time.Sleep(sweepInterval + time.Second)
		k.Lookup(t.Context(), Request{Image: "r.example/0"})
		if n := len(k.compiled.Load().runners[0].cache.entries); n != 1 {
			t.Errorf("%d entries, want 1", n)
		}
	})
}

func TestInvalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		var dropped []string // providers in the EventInvalidate events
		k, err := New(oneProviderConfig(nil), Options{BinDir: "none", InProcess: map[string]plugin.Provider{"p": s}, Observer: func(e Event) {
			if e.Kind == EventInvalidate {
				dropped = append(dropped, e.Provider)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		get := func() Credential {
			res := must.Get(k.Lookup(t.Context(), Request{Image: "r.example/x"}))(t)
			return res.Credentials[0]
		}
		want := func(n int, what string) {
			t.Helper()
			if get(); s.execs() != n {
				t.Errorf("%s: %d execs, want %d", what, s.execs(), n)
			}
		}
		first := get()
		for i := range 10 {
			must.Get(k.Lookup(t.Context(), Request{Image: fmt.Sprintf("other-%d.example/x", i)}))(t)
		}
		s.images = s.images[:1]
		want(1, "cached")
		k.Invalidate(first)
		if len(dropped) != 1 {
			t.Errorf("told of %q", dropped)
		}
		if n := len(k.compiled.Load().runners[0].cache.entries); n != 10 {
			t.Errorf("%d entries are left, want the 10 of other registries", n)
		}
		want(2, "refused")
		k.Invalidate(first)
		want(2, "an earlier generation is refused again")
		second := get()
		k.Invalidate(second)
		want(2, "refused twice within a minute")
		time.Sleep(time.Minute)
		k.Invalidate(second)
		want(3, "refused after a minute")
		k.Invalidate(Credential{})
		want(3, "a credential of nobody")
		if diff := cmp.Diff([]string{"p", "p"}, dropped); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestRefreshAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		k, err := New(oneProviderConfig(nil), Options{BinDir: "none", InProcess: map[string]plugin.Provider{"p": s}, RefreshAhead: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		look := func() *Result {
			return must.Get(k.Lookup(t.Context(), Request{Image: "r.example/x"}))(t)
		}
		look()
		time.Sleep(49 * time.Minute)
		look()
		synctest.Wait()
		if s.execs() != 1 {
			t.Errorf("%d execs before the last ten minutes, want 1", s.execs())
		}
		time.Sleep(3 * time.Minute)
		begin := time.Now()
		for range 20 {
			if look().Attempts[0].Cache != CacheHit {
				t.Error("a lookup waited for the refresh")
			}
		}
		if time.Since(begin) != 0 {
			t.Error("lookups took time")
		}
		time.Sleep(2 * time.Second)
		if s.execs() != 2 {
			t.Errorf("%d execs, want 2: one refresh for many lookups", s.execs())
		}
		time.Sleep(30 * time.Minute)
		if a := look().Attempts[0]; a.Cache != CacheHit || s.execs() != 2 {
			t.Errorf("the refreshed response is not in the cache: %+v", a)
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: func(context.Context, *plugin.Request) (*plugin.Response, error) { return nil, errors.New("throttled") }}
		k, err := New(oneProviderConfig(nil), Options{BinDir: "none", InProcess: map[string]plugin.Provider{"p": s}, Backoff: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		look := func() plugin.Stage {
			res, err := k.Lookup(t.Context(), Request{Image: "r.example/x"})
			if err == nil {
				t.Fatal("no error")
			}
			return res.Attempts[0].Stage
		}
		begin := time.Now()
		for time.Since(begin) < 5*time.Minute {
			if stage := look(); stage != StageBackoff && stage != plugin.StageExec {
				t.Fatalf("stage %s", stage)
			}
			time.Sleep(100 * time.Millisecond)
		}
		// Each run takes a second, and the backoff between two runs is 7.5 to 10 seconds.
		if n := s.execs(); n < 25 || n > 40 {
			t.Errorf("%d execs in five minutes, want about 30", n)
		}
		s.answer = newPluginResponder(plugin.CacheImage, time.Nanosecond, "")
		time.Sleep(11 * time.Second)
		n := s.execs()
		for range 3 {
			must.Get(k.Lookup(t.Context(), Request{Image: "r.example/x"}))(t)
			time.Sleep(time.Millisecond)
		}
		if s.execs() != n+3 {
			t.Errorf("still backing off after a success")
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		k := newRecordingKeyring(t, s, nil, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := k.Lookup(context.Background(), Request{Image: "r.example/x"}); !errors.Is(err, ErrClosed) {
				t.Errorf("lookup under way: %v, want ErrClosed", err)
			}
		})
		synctest.Wait()
		k.Close()
		wg.Wait()
		synctest.Wait() // Lookup does not wait for an exec that was canceled by Close
		if len(s.contextErrs) != 1 || !errors.Is(s.contextErrs[0], context.Canceled) {
			t.Errorf("the exec ended with %v, want it cancelled", s.contextErrs)
		}
		if _, err := k.Lookup(context.Background(), Request{Image: "r.example/x"}); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v, want ErrClosed", err)
		}
		k.Close()
	})
}

func TestNothingPrintsASecret(t *testing.T) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var mu sync.Mutex
	k := newProvidersKeyring(t, Options{Logger: log, Observer: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&logged, "%v %+v %#v", e, e, e)
	}}, staticProvider{CacheKeyType: plugin.CacheRegistry, Auth: authForUsers("r.io", "u")})
	req := Request{Image: "r.io/x", Token: plugin.NewSecret(canary.TokenSecret), PullSecrets: []PullSecret{
		newPullSecret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", `{"auths":{"r.io":{"auth":"`+canary.PasswordSecret+`"}}}`)}}
	for range 2 {
		res := must.Get(k.Lookup(t.Context(), req))(t)
		mu.Lock()
		for _, v := range []any{res, *res, res.Credentials, res.Credentials[0], res.Attempts, &res.Attempts[0]} {
			fmt.Fprintf(&logged, "%v %+v %#v %s %q %x\n", v, v, v, v, v, v)
		}
		mu.Unlock()
	}
	if !strings.Contains(logged.String(), "[redacted]") {
		t.Error("nothing was printed")
	}
	canary.AssertAbsent(t, "the output and the log", logged.String())
}

// cachedOptions lists the options that affect every cached lookup.
var cachedOptions = map[string]Options{
	"none":         {},
	"Observer":     {Observer: func(Event) {}},
	"Logger":       {Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, // at level Info
	"RefreshAhead": {RefreshAhead: time.Minute},
	"all":          {Observer: func(Event) {}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), RefreshAhead: time.Minute},
}

func TestCostOfACachedLookup(t *testing.T) {
	for name, opts := range cachedOptions {
		t.Run(name, func(t *testing.T) {
			lookUp := cachedLookup(t, opts)
			if n := testing.AllocsPerRun(100, lookUp); n > 2 {
				t.Errorf("%v allocations, want at most 2", n)
			}
			created := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
			metrics.Read(created)
			before := created[0].Value.Uint64()
			for range 1000 {
				lookUp()
			}
			metrics.Read(created)
			if n := created[0].Value.Uint64() - before; n > 100 { // the runtime starts some goroutines itself
				t.Errorf("%d goroutines started by 1000 lookups, want none", n)
			}
		})
	}
}

// cachedLookup returns a function that looks up a cached response.
func cachedLookup(t testing.TB, opts Options) func() {
	k := newProvidersKeyring(t, opts, staticProvider{CacheKeyType: plugin.CacheRegistry, Auth: authForUsers("r.io", "u")})
	ctx, req := context.Background(), Request{Image: "r.io/team/app:v1"}
	lookUp := func() {
		if res, err := k.Lookup(ctx, req); err != nil || len(res.Credentials) != 1 {
			t.Fatal(err)
		}
	}
	lookUp()
	return lookUp
}

// TestNodeDockerConfigPlaces verifies that relative directories are below the working
// directory, and that the working directory is used if there is no home directory, as in the
// kubelet.
func TestNodeDockerConfigPlaces(t *testing.T) {
	for _, tt := range []struct {
		name  string
		paths NodePaths
		want  string
	}{
		{"all", NodePaths{"/kubelet", "/cwd", "/user"},
			"/kubelet/config.json /cwd/config.json /user/.docker/config.json /.docker/config.json /kubelet/.dockercfg /cwd/.dockercfg /user/.dockercfg /.dockercfg"},
		{"no home", NodePaths{"/kubelet", "/cwd", ""},
			"/kubelet/config.json /cwd/config.json /cwd/.docker/config.json /.docker/config.json /kubelet/.dockercfg /cwd/.dockercfg /cwd/.dockercfg /.dockercfg"},
		{"relative", NodePaths{"kubelet", "/cwd", "user"},
			"/cwd/kubelet/config.json /cwd/config.json /cwd/user/.docker/config.json /.docker/config.json /cwd/kubelet/.dockercfg /cwd/.dockercfg /cwd/user/.dockercfg /.dockercfg"},
		{"root alone", NodePaths{RootDir: "/kubelet"}, "/kubelet/config.json /.docker/config.json /kubelet/.dockercfg /.dockercfg"},
		{"home alone", NodePaths{Home: "/user"}, "/user/.docker/config.json /.docker/config.json /user/.dockercfg /.dockercfg"},
		{"nothing", NodePaths{}, "/.docker/config.json /.dockercfg"},
	} {
		var got []string
		for _, c := range (&nodeDockerConfig{paths: tt.paths}).candidates() {
			got = append(got, filepath.ToSlash(c.path))
		}
		if diff := cmp.Diff(strings.Fields(tt.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestEvictionKeepsUsedEntries verifies that an entry that was used since the last eviction is
// kept, although it expires first.
func TestEvictionKeepsUsedEntries(t *testing.T) {
	now := time.Now()
	entry := func(host string, ends time.Duration) (lookupKey, *response) {
		q := must.Get(newLookupKey(Request{Image: host + "/x"}))(t)
		return q, &response{key: cacheKey{scope: plugin.CacheRegistry, scopedName: q.scopedName(plugin.CacheRegistry)}, storedAt: now, expires: now.Add(ends)}
	}
	for range 20 { // map iteration starts at a random entry
		c := newResponseCache(2)
		used, first := entry("used.example", time.Minute)
		_, second := entry("unused.example", time.Hour)
		c.put(first)
		c.put(second)
		if c.getUnexpired(used, "", now) == nil {
			t.Fatal("the entry is not found")
		}
		_, third := entry("new.example", time.Hour)
		if evicted := c.put(third); !evicted || c.getUnexpired(used, "", now) == nil {
			t.Fatal("the entry that was used is gone")
		}
	}
}
