// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// numberedKeyring returns a keyring with one provider for r.example. Its password is the number of
// the run. A run takes a second.
func numberedKeyring(t *testing.T, runs *atomic.Int64, fails *atomic.Bool) *Keyring {
	t.Helper()
	cfg := &config.Config{Providers: []config.Provider{{Name: "p", APIVersion: plugin.V1, MatchImages: []string{"r.example"}, DefaultCacheDuration: new(time.Hour)}}}
	k := must.Get(New(cfg, Options{InProcess: map[string]plugin.Provider{"p": plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
		n := runs.Add(1)
		time.Sleep(time.Second)
		if fails.Load() {
			return nil, errors.New("no route")
		}
		return &plugin.Response{CacheKeyType: plugin.CacheRegistry, Auth: map[string]plugin.AuthConfig{
			"https://r.example/v1/": {Username: "u", Password: plugin.NewSecret(fmt.Sprint(n))},
		}}, nil
	})}}))(t)
	t.Cleanup(func() { k.Close() })
	return k
}

// TestNotBefore verifies that a lookup with NotBefore runs the plugin again only if the cached
// response is older, that its response replaces the cached one, and that it does not wait for an
// earlier exec.
func TestNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		var fails atomic.Bool
		k := numberedKeyring(t, &runs, &fails)
		password := func(notBefore time.Time) string {
			t.Helper()
			res := must.Get(k.Lookup(t.Context(), Request{Image: "r.example/a", NotBefore: notBefore}))(t)
			return res.Credentials[0].Password.Reveal()
		}
		start := time.Now()
		for _, step := range []struct {
			notBefore time.Time
			want      string
		}{{time.Time{}, "1"}, {start, "1"}, {start.Add(time.Minute), "2"}, {time.Time{}, "2"}, {start, "2"}} {
			if got := password(step.notBefore); got != step.want {
				t.Errorf("not before %v: password %s, want %s", step.notBefore.Sub(start), got, step.want)
			}
			time.Sleep(time.Minute)
		}
		go func() { _, _ = k.Lookup(t.Context(), Request{Image: "r.example/a", NotBefore: time.Now()}) }()
		time.Sleep(time.Second / 2)
		if got := password(time.Now()); got != "4" {
			t.Errorf("during an exec: password %s, want that of a later exec", got)
		}
	})
}

// TestCall verifies that Call returns the plugin's response with its own keys, and shares the cache
// and the execs with lookups.
func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		var fails atomic.Bool
		k := numberedKeyring(t, &runs, &fails)
		call := func(image string) (*plugin.Response, Attempt) {
			t.Helper()
			resp, a, err := k.Call(t.Context(), "p", Request{Image: image})
			must.Do(t, err)
			return resp, a
		}
		first, _ := call("r.example/a")
		if first.CacheDuration != nil || first.CacheKeyType != plugin.CacheRegistry || first.Auth["https://r.example/v1/"].Password.Reveal() != "1" {
			t.Errorf("the plugin's response: %+v", first)
		}
		time.Sleep(10 * time.Minute)
		cached, a := call("r.example/b")
		if cached.CacheDuration == nil || *cached.CacheDuration != 50*time.Minute || len(cached.Auth) != 1 || a.Age != 10*time.Minute || a.Cache != CacheHit {
			t.Errorf("the cached response: %+v, %+v, want 50 minutes left", cached, a)
		}
		if res := must.Get(k.Lookup(t.Context(), Request{Image: "r.example/c"}))(t); res.Attempts[0].Cache != CacheHit || runs.Load() != 1 {
			t.Errorf("a lookup: %+v after %d runs", res.Attempts, runs.Load())
		}
		fails.Store(true)
		for what, tt := range map[string]struct {
			provider, image string
		}{"a failing plugin": {"p", "r.example/a"}, "no such provider": {"q", "r.example/a"}, "no image": {"p", "R:x:y"}} {
			if resp, _, err := k.Call(t.Context(), tt.provider, Request{Image: tt.image, NotBefore: time.Now()}); err == nil || resp != nil {
				t.Errorf("%s: %+v, %v", what, resp, err)
			}
		}
		if got, _ := call("r.example/a"); got.Auth["https://r.example/v1/"].Password.Reveal() != "1" {
			t.Errorf("a failure removed the cached response")
		}
		k.Close()
		if _, _, err := k.Call(t.Context(), "p", Request{Image: "r.example/a"}); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
