// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

// accounts is an API server with one service account.
type accounts struct{ id corpus.Identity }

// GetServiceAccount implements regcred.ServiceAccounts.
func (a *accounts) GetServiceAccount(context.Context, string, string) (*regcred.ServiceAccount, error) {
	return &regcred.ServiceAccount{Namespace: a.id.Namespace, Name: a.id.Name, UID: a.id.UID, Annotations: a.id.Annotations}, nil
}

// RequestToken implements regcred.ServiceAccounts.
func (a *accounts) RequestToken(context.Context, regcred.TokenRequest) (plugin.Secret, error) {
	return plugin.NewSecret(a.id.Token), nil
}

// identity draws from few letters, so that two of them nearly collide.
func identity(r *rand.Rand) corpus.Identity {
	word := func() string { return pick(r, []string{"", "a", "b", "aa", "ab", "\x00", "\x00\x01a", "token"}) }
	id := corpus.Identity{
		Image: pick(r, []string{"registry.io/app", "registry.io/app", "registry.io/b"}), Namespace: word(), Name: word(), UID: word(),
		Token: "canary-token-4b1d" + pick(r, []string{"", "-2"}), Annotations: map[string]string{},
	}
	for range r.IntN(3) {
		id.Annotations[pick(r, []string{"a", "b", "aa"})] = word()
	}
	if one(r, 40) {
		id.NameLength = 65_535 - r.IntN(60) + r.IntN(3)
	}
	if one(r, 40) {
		id.AnnotationLength = 65_535 - r.IntN(60) + r.IntN(3)
	}
	return id.Expand()
}

// vary changes one thing, or nothing.
func vary(r *rand.Rand, id corpus.Identity) corpus.Identity {
	other := identity(r)
	id.Annotations = maps.Clone(id.Annotations)
	switch r.IntN(8) {
	case 0:
		id.Image = other.Image
	case 1:
		id.Namespace = other.Namespace
	case 2:
		id.Name = other.Name
	case 3:
		id.UID = other.UID
	case 4:
		id.Annotations = other.Annotations
	case 5:
		id.Token = other.Token
	case 6:
		return other
	}
	return id
}

func TestCacheKey(t *testing.T) {
	same, failed := 0, 0
	cases(t, 20_000, func(r *rand.Rand) bool {
		cacheType := pick(r, []string{"ServiceAccount", "Token"})
		a := identity(r)
		b := vary(r, a)
		keyA, errA := kubelet.CacheKey(cacheType, a)
		keyB, errB := kubelet.CacheKey(cacheType, b)
		first, second := askTwice(t, cacheType, a, b)
		want := errA == nil && errB == nil && keyA == keyB
		if want {
			same++
		}
		if errA != nil || errB != nil {
			failed++
		}
		if (first.Err != nil) != (errA != nil) || (second.Err != nil) != (errB != nil) || (second.Cache == regcred.CacheHit) != want {
			t.Errorf("%s, %s and %s: errors %v and %v, served from the cache %t; the kubelet's errors %v and %v, same key %t",
				cacheType, show(a), show(b), first.Err, second.Err, second.Cache == regcred.CacheHit, errA, errB, want)
			return false
		}
		return true
	})
	t.Logf("%d pairs share a key, %d had none", same, failed)
	if same < 100 || failed < 100 {
		t.Error("the generator no longer makes both kinds")
	}
}

// askTwice asks one provider for a and then for b.
func askTwice(t *testing.T, cacheType string, a, b corpus.Identity) (first, second regcred.Attempt) {
	keys := slices.Sorted(maps.Keys(a.Annotations))
	keys = slices.AppendSeq(keys, maps.Keys(b.Annotations))
	slices.Sort(keys)
	server := &accounts{}
	k := open(t, &config.Config{Providers: []config.Provider{{
		Name: "p", MatchImages: []string{"registry.io"}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1,
		TokenAttributes: &config.TokenAttributes{
			ServiceAccountTokenAudience: "registry.io", CacheType: config.TokenCacheType(cacheType), RequireServiceAccount: new(false),
			OptionalServiceAccountAnnotationKeys: slices.Compact(keys),
		},
	}}}, regcred.Options{
		BinDir: os.TempDir(), ServiceAccounts: server,
		InProcess: map[string]plugin.Provider{"p": answering(map[string]corpus.Auth{"registry.io": {Username: "u", Password: password}})},
	})
	defer k.Close()
	ask := func(id corpus.Identity) regcred.Attempt {
		server.id = id
		res, err := k.Lookup(t.Context(), regcred.Request{Image: id.Image, Pod: &regcred.Pod{
			Namespace: id.Namespace, Name: "pod", UID: "pod-uid", ServiceAccount: id.Name,
		}})
		if res == nil || len(res.Attempts) != 1 {
			t.Fatalf("want one attempt; error %v", err)
		}
		return res.Attempts[0]
	}
	return ask(a), ask(b)
}

// show shortens long values, and leaves the token out.
func show(id corpus.Identity) string {
	id.Token = id.Token[len("canary-token-4b1d"):]
	out, _ := json.Marshal(id)
	if len(out) > 300 {
		out = out[:300]
	}
	return string(out)
}
