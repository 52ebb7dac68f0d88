// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package adapter

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/generate"
)

// fakeAccountClient is a fake API server with one service account.
type fakeAccountClient struct{ id corpus.Identity }

// GetServiceAccount implements regcred.ServiceAccountClient.
func (a *fakeAccountClient) GetServiceAccount(context.Context, string, string) (*regcred.ServiceAccount, error) {
	return &regcred.ServiceAccount{Namespace: a.id.Namespace, Name: a.id.Name, UID: a.id.UID, Annotations: a.id.Annotations}, nil
}

// RequestToken implements regcred.ServiceAccountClient.
func (a *fakeAccountClient) RequestToken(context.Context, regcred.TokenRequest) (plugin.Secret, error) {
	return plugin.NewSecret(a.id.Token), nil
}

// LookUpTwice looks up credentials for a and then for b, with the same keyring and provider.
func LookUpTwice(ctx context.Context, cacheType string, a, b corpus.Identity) (first, second regcred.Attempt, err error) {
	keys := slices.Sorted(maps.Keys(a.Annotations))
	keys = slices.AppendSeq(keys, maps.Keys(b.Annotations))
	slices.Sort(keys)
	server := &fakeAccountClient{}
	k, err := regcred.New(&config.Config{Providers: []config.Provider{{
		Name: "p", MatchImages: []string{"registry.io"}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1,
		TokenAttributes: &config.TokenAttributes{
			ServiceAccountTokenAudience: "registry.io", CacheType: config.TokenCacheType(cacheType), RequireServiceAccount: new(false),
			OptionalServiceAccountAnnotationKeys: slices.Compact(keys),
		},
	}}}, regcred.Options{
		BinDir: os.TempDir(), ServiceAccounts: server,
		InProcess: map[string]plugin.Provider{"p": StaticProvider(map[string]corpus.Auth{"registry.io": {Username: "u", Password: generate.Password}})},
	})
	if err != nil {
		return first, second, err
	}
	defer k.Close()
	ask := func(id corpus.Identity) (regcred.Attempt, error) {
		server.id = id
		res, err := k.Lookup(ctx, regcred.Request{Image: id.Image, Pod: &regcred.Pod{
			Namespace: id.Namespace, Name: "pod", UID: "pod-uid", ServiceAccount: id.Name,
		}})
		if res == nil || len(res.Attempts) != 1 {
			return regcred.Attempt{}, fmt.Errorf("not one attempt: %w", err)
		}
		return res.Attempts[0], nil
	}
	if first, err = ask(a); err == nil {
		second, err = ask(b)
	}
	return first, second, err
}
