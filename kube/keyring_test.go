// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/kube"
	"github.com/regcred/regcred/plugin"
)

const registryHost = "reg.example"

// countingPlugin is a plugin that counts its calls and records the last request.
type countingPlugin struct {
	execs atomic.Int32
	last  atomic.Pointer[plugin.Request]
}

func (p *countingPlugin) GetCredentials(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
	p.execs.Add(1)
	p.last.Store(req)
	return &plugin.Response{
		CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Hour),
		Auth: map[string]plugin.AuthConfig{registryHost: {Username: "u", Password: plugin.NewSecret(canary.PasswordSecret)}},
	}, nil
}

// newKeyring returns a keyring that calls the plugin p with service account tokens.
func newKeyring(t testing.TB, c *kube.Client, p plugin.Provider, cacheType config.TokenCacheType) *regcred.Keyring {
	t.Helper()
	config := &config.Config{Providers: []config.Provider{{
		Name: "cloud", MatchImages: []string{registryHost}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1,
		TokenAttributes: &config.TokenAttributes{
			ServiceAccountTokenAudience: registryHost, CacheType: cacheType, RequireServiceAccount: new(true),
			OptionalServiceAccountAnnotationKeys: []string{"example.com/role"},
		},
	}}}
	k, err := regcred.New(config, regcred.Options{BinDir: "none", InProcess: map[string]plugin.Provider{"cloud": p}, ServiceAccounts: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// addPods adds n pods on node-1 that all use one service account.
func addPods(api *testkube.Server, n int) []*regcred.Pod {
	api.AddServiceAccount(testkube.ServiceAccount{Namespace: "ci", Name: "builder"})
	api.Grant(nodeName, testkube.AudienceVerb, registryHost)
	var all []*regcred.Pod
	for i := range n {
		name := fmt.Sprint("pod-", i)
		uid := api.AddPod(testkube.Pod{Namespace: "ci", Name: name, ServiceAccount: "builder", Node: "node-1"})
		all = append(all, &regcred.Pod{Namespace: "ci", Name: name, UID: uid, ServiceAccount: "builder"})
	}
	return all
}

// TestManyPods looks up 20 images of one registry for each of 500 pods, concurrently and starting
// with an empty cache. All pods use one service account, and the client has the identity of their
// node.
func TestManyPods(t *testing.T) {
	const n, images = 500, 20
	for _, tt := range []struct {
		cacheType     config.TokenCacheType
		tokens, execs int
	}{
		{config.CachePerServiceAccount, 1, 1},
		{config.CachePerToken, n, n},
	} {
		t.Run(string(tt.cacheType), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // in a bubble, no call times out on a busy machine
				api := startPipe(t)
				all := addPods(api, n)
				p := &countingPlugin{}
				k := newKeyring(t, newClient(t, api, nodeName, kube.Options{}), p, tt.cacheType)
				var wg sync.WaitGroup
				for _, pod := range all {
					wg.Go(func() {
						for i := range images {
							image := fmt.Sprintf("%s/app-%d:v1", registryHost, i)
							if res, err := k.Lookup(t.Context(), regcred.Request{Image: image, Pod: pod}); err != nil || len(res.Credentials) != 1 {
								t.Errorf("%s: %v", pod.Name, err)
							}
						}
					})
				}
				wg.Wait()
				wantCalls(t, api, "create", "serviceaccounts/token", tt.tokens)
				wantCalls(t, api, "get", "serviceaccounts", 1)
				if got := int(p.execs.Load()); got != tt.execs {
					t.Errorf("%d execs, want %d", got, tt.execs)
				}
			})
		})
	}
}

func lookUpPod(t *testing.T, k *regcred.Keyring, pod *regcred.Pod, image string) (*regcred.Attempt, error) {
	t.Helper()
	res, err := k.Lookup(t.Context(), regcred.Request{Image: registryHost + "/" + image, Pod: pod})
	if res == nil || len(res.Attempts) != 1 {
		t.Fatalf("got %v, error %v, want one attempt", res, err)
	}
	return &res.Attempts[0], err
}

// TestLongAnnotations verifies the limit of 64 KiB for annotations that a plugin receives, and that
// other annotations may have any length.
func TestLongAnnotations(t *testing.T) {
	const role = "example.com/role"
	// The other bytes of the kubelet's cache key: a 16-bit length before each field, and a 32-bit
	// count.
	const around = 2 + len("ci") + 2 + len("builder") + 2 + len("uid-1") + 4 + 2 + len(role) + 2
	for _, tt := range []struct {
		name   string
		key    string
		length int
		stage  plugin.Stage
	}{
		{"the longest", role, math.MaxUint16 - around, ""},
		{"one more", role, math.MaxUint16 - around + 1, regcred.StageServiceAccount},
		{"64 KiB - 1", role, 64<<10 - 1, regcred.StageServiceAccount},
		{"64 KiB", role, 64 << 10, regcred.StageServiceAccount},
		{"64 KiB + 1", role, 64<<10 + 1, regcred.StageServiceAccount},
		{"256 KiB", role, 256<<10 - len(role), regcred.StageServiceAccount},
		{"256 KiB, not passed on", "example.com/other", 256<<10 - len(role), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := startServer(t, testkube.Options{})
			pod := addPods(api, 1)[0]
			api.AddServiceAccount(testkube.ServiceAccount{
				Namespace: "ci", Name: "builder", UID: "uid-1",
				Annotations: map[string]string{tt.key: strings.Repeat("x", tt.length)},
			})
			p := &countingPlugin{}
			k := newKeyring(t, newClient(t, api, nodeName, kube.Options{}), p, config.CachePerServiceAccount)
			a, err := lookUpPod(t, k, pod, "app")
			if a.Stage != tt.stage {
				t.Fatalf("failed at %q, want %q: %.500v", a.Stage, tt.stage, err)
			}
			if tt.stage != "" {
				if text := err.Error(); len(text) > 500 {
					t.Errorf("an error of %d bytes: %.500s", len(text), text)
				}
				return
			}
			want := 0
			if tt.key == role {
				want = tt.length
			}
			if got := p.last.Load().ServiceAccountAnnotations[role]; len(got) != want {
				t.Errorf("the plugin got %d bytes, want %d", len(got), want)
			}
		})
	}
}

// TestKeyringWhileDown verifies lookups while the API server is down. A cached response is used for
// almost an hour. A pod without a cached token gets an error.
func TestKeyringWhileDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		all := addPods(api, 2)
		p := &countingPlugin{}
		k := newKeyring(t, newClient(t, api, nodeName, kube.Options{}), p, config.CachePerToken)
		must.Get(lookUpPod(t, k, all[0], "app"))(t)
		api.Stop()
		time.Sleep(59 * time.Minute) // the token must be refreshed, but is still valid
		a, err := lookUpPod(t, k, all[0], "app")
		if err != nil || a.Cache != regcred.CacheHit {
			t.Errorf("from the cache: %q, error %v", a.Cache, err)
		}
		a, err = lookUpPod(t, k, all[1], "app")
		if a.Stage != regcred.StageToken || !errors.As(err, new(*regcred.LookupError)) {
			t.Errorf("another pod, without a token: stage %q, error %v", a.Stage, err)
		}
		time.Sleep(time.Minute)
		a, err = lookUpPod(t, k, all[0], "app") // one hour after the first lookup
		if a.Stage != regcred.StageServiceAccount || err == nil {
			t.Errorf("after an hour: stage %q, error %v", a.Stage, err)
		}
	})
}

// TestTokenExpiresDuringPull verifies that a new token is requested if the old one expires between
// two layers.
func TestTokenExpiresDuringPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startServer(t, testkube.Options{Pipe: true, TokenLifetime: 10 * time.Minute})
		pod := addPods(api, 1)[0]
		p := &countingPlugin{}
		k := newKeyring(t, newClient(t, api, nodeName, kube.Options{}), p, config.CachePerToken)
		seen := map[string]bool{}
		for range 30 {
			must.Get(lookUpPod(t, k, pod, "app"))(t)
			seen[p.last.Load().ServiceAccountToken.Reveal()] = true
			time.Sleep(time.Minute)
		}
		// Each token is used for eight minutes, 80 % of its lifetime.
		if n := api.CountRequests("create", "serviceaccounts/token"); n != 4 || len(seen) != n {
			t.Errorf("%d tokens were minted and %d used, want 4", n, len(seen))
		}
	})
}

// TestLookupErrors verifies that a failure to get a token is reported on one line with the failed
// step, and never leads to an anonymous pull.
func TestLookupErrors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		with  func(*testkube.Server)
		stage plugin.Stage
		says  string
	}{
		{"403 to the service account", func(s *testkube.Server) {
			s.Inject(testkube.Fault{Kind: testkube.FaultForbidden, Verb: "get"})
		}, regcred.StageServiceAccount, `the client needs the verb "get" on the resource "serviceaccounts" in namespace "ci"`},
		{"403 to the audience", func(s *testkube.Server) { s.Revoke(nodeName, testkube.AudienceVerb, registryHost) },
			regcred.StageToken, `the client needs the verb "request-serviceaccounts-token-audience" on the resource "reg.example" in namespace "ci"`},
		{"deleted before the token", func(s *testkube.Server) {
			s.Inject(testkube.Fault{Kind: testkube.FaultNotFound, Resource: "serviceaccounts/token"})
		}, regcred.StageToken, `404 Not Found`},
		{"pod UID reused", func(s *testkube.Server) {
			s.AddPod(testkube.Pod{Namespace: "ci", Name: "pod-0", UID: "new", ServiceAccount: "builder", Node: "node-1"})
		}, regcred.StageToken, "does not match the UID in record"},
		{"down", (*testkube.Server).Stop, regcred.StageServiceAccount, "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := startServer(t, testkube.Options{})
			pod := addPods(api, 1)[0]
			tt.with(api)
			p := &countingPlugin{}
			k := newKeyring(t, newClient(t, api, nodeName, kube.Options{}), p, config.CachePerServiceAccount)
			a, err := lookUpPod(t, k, pod, "app")
			if a.Stage != tt.stage || !errors.As(err, new(*regcred.LookupError)) || p.execs.Load() > 0 {
				t.Errorf("stage %q, want %q; %d execs; error %v", a.Stage, tt.stage, p.execs.Load(), err)
			}
			if !strings.HasSuffix(err.Error(), tt.says) && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got\n%v\nwant in it\n%s", err, tt.says)
			}
			var e *kube.Error
			if !errors.As(err, &e) {
				t.Errorf("there is no *kube.Error in %v", err)
			}
		})
	}
}

// BenchmarkWarmLookup measures a lookup with a service account whose result is cached.
func BenchmarkWarmLookup(b *testing.B) {
	for _, cacheType := range []config.TokenCacheType{config.CachePerServiceAccount, config.CachePerToken} {
		b.Run(string(cacheType), func(b *testing.B) {
			api := startServer(b, testkube.Options{})
			pod := addPods(api, 1)[0]
			c := newClient(b, api, testkube.Admin, kube.Options{})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			k := newKeyring(b, c, &countingPlugin{}, cacheType)
			req := regcred.Request{Image: registryHost + "/app:v1", Pod: pod}
			ask := func() {
				if res, err := k.Lookup(ctx, req); err != nil || len(res.Credentials) != 1 {
					b.Fatal(err)
				}
			}
			ask()
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
}

// BenchmarkManyPods measures the memory in use after lookups for 5,000 pods of 500 service accounts
// (heap-bytes).
func BenchmarkManyPods(b *testing.B) {
	api := startServer(b, testkube.Options{})
	var all []*regcred.Pod
	for i := range 5000 {
		account, pod := fmt.Sprint("account-", i%500), fmt.Sprint("pod-", i)
		if i < 500 {
			api.AddServiceAccount(testkube.ServiceAccount{Namespace: "ci", Name: account, Annotations: map[string]string{"example.com/role": account}})
		}
		uid := api.AddPod(testkube.Pod{Namespace: "ci", Name: pod, ServiceAccount: account})
		all = append(all, &regcred.Pod{Namespace: "ci", Name: pod, UID: uid, ServiceAccount: account})
	}
	for b.Loop() {
		c := newClient(b, api, testkube.Admin, kube.Options{})
		k := newKeyring(b, c, &countingPlugin{}, config.CachePerToken)
		before := heapBytes()
		for _, pod := range all {
			if res, err := k.Lookup(b.Context(), regcred.Request{Image: registryHost + "/app:v1", Pod: pod}); err != nil || len(res.Credentials) != 1 {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heapBytes()-before), "heap-bytes") // includes the test server's log of requests
		k.Close()
	}
}
