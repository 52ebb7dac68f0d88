// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/upstream/adapter"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/generate"
	"github.com/regcred/regcred/upstream/vector"
)

func compareKeyrings(*comparison) (compareFunc, error) {
	return func(s *comparison, r *rand.Rand) (verdict, error) {
		repo := generate.PickElement(r, generate.Repositories)
		c := corpus.KeyringCase{Image: repo}
		for _, a := range generate.RandomResponses(r, repo) {
			c.Responses = append(c.Responses, dropInvalidKeys(a))
		}
		want, err := queryVector[vector.KeyringVector](s.oracle, "keyring", c, false)
		if err != nil {
			return verdictAgreed, err
		}
		got, err := lookupCredentials(s.ctx, c.Responses, regcred.Request{Image: repo})
		if err != nil || slices.Equal(got, want.Credentials) {
			return verdictAgreed, err
		}
		return newDifference("", "image %q: %q; the kubelet's %q", repo, usernames(got), usernames(want.Credentials)), nil
	}, nil
}

// dropInvalidKeys drops keys that a JSON response cannot contain.
func dropInvalidKeys(answer map[string]corpus.Auth) map[string]corpus.Auth {
	out := map[string]corpus.Auth{}
	for k, v := range answer {
		if strings.ToValidUTF8(k, "") == k {
			out[k] = v
		}
	}
	return out
}

// lookupCredentials returns the credentials that regcred finds for req if its providers return the
// responses in answers.
func lookupCredentials(ctx context.Context, answers []map[string]corpus.Auth, req regcred.Request) ([]corpus.Auth, error) {
	k, err := adapter.NewKeyring(answers, regcred.Options{})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	res, err := k.Lookup(ctx, req)
	if err != nil {
		return nil, err
	}
	return adapter.AuthsOf(res), nil
}

// usernames returns the user names, which are not secret.
func usernames(list []corpus.Auth) (out []string) {
	for _, a := range list {
		out = append(out, string(a.Username))
	}
	return out
}

func comparePullSecrets(s *comparison) (compareFunc, error) {
	find := func(c corpus.PullSecretCase) ([]corpus.Auth, error) {
		return lookupCredentials(s.ctx, nil, regcred.Request{Image: "registry.io/app", PullSecrets: []regcred.PullSecret{{Type: c.Type, Data: map[string][]byte{c.Key: []byte(c.Data)}}}})
	}
	list := slices.DeleteFunc(corpus.PullSecretCases(), func(s corpus.PullSecretCase) bool { return len(s.Data) > 2000 })
	broken := map[corpus.RawString]bool{}
	for _, c := range list {
		_, err := find(c)
		broken[c.Data] = broken[c.Data] || err != nil
	}
	return func(s *comparison, r *rand.Rand) (verdict, error) {
		c := generate.RandomPullSecrets(r, list, func(s corpus.PullSecretCase) bool { return broken[s.Data] })[0]
		if generate.HasCollidingKeys(c) {
			return verdictAgreed, nil // the kubelet returns their credentials in random order
		}
		want, err := queryVector[vector.DockerConfigVector](s.oracle, "dockerconfig", c, false)
		if err != nil {
			return verdictAgreed, err
		}
		got, err := find(c)
		if _, failed := errors.AsType[*regcred.LookupError](err); err != nil && !failed {
			return verdictAgreed, err
		}
		if (err != nil) == want.Error && (err != nil || slices.Equal(got, want.Lookups[0].Credentials)) {
			return verdictAgreed, nil
		}
		return newDifference("", "%s of type %q, %d bytes: %q, error %v; the kubelet: refused %t, %v", c.Key, c.Type, len(c.Data), usernames(got), err, want.Error, want.Lookups), nil
	}, nil
}

func compareCacheKeys(*comparison) (compareFunc, error) {
	return func(s *comparison, r *rand.Rand) (verdict, error) {
		c := corpus.CacheKeyCase{CacheType: generate.PickElement(r, []string{"ServiceAccount", "Token"})}
		c.A = generate.RandomIdentity(r)
		c.B = generate.VaryIdentity(r, c.A)
		want, err := queryVector[vector.CacheKeyVector](s.oracle, "cachekey", c, false)
		if err != nil {
			return verdictAgreed, err
		}
		ok, what, err := compareKeySharing(s.ctx, c, want)
		if ok || err != nil {
			return verdictAgreed, err
		}
		// Compare as if the cache key depended only on the service account.
		name := ""
		c.CacheType = "ServiceAccount"
		if ok, _, err := compareKeySharing(s.ctx, c, want); ok && err == nil {
			name = differenceFor(diffNoCacheType, s.oracle.minor)
		}
		return newDifference(name, "%s", what), nil
	}, nil
}

// compareKeySharing looks up credentials for two identities with regcred. It compares whether the
// second lookup uses the cached response with whether the identities have the same cache key in the
// kubelet's vector.
func compareKeySharing(ctx context.Context, c corpus.CacheKeyCase, want vector.CacheKeyVector) (ok bool, what string, err error) {
	a, b, err := adapter.LookUpTwice(ctx, c.CacheType, c.A, c.B)
	if err != nil {
		return false, "", err
	}
	hit := b.Cache == regcred.CacheHit
	if (a.Err != nil) == want.ErrorA && (b.Err != nil) == want.ErrorB && hit == want.Same {
		return true, "", nil
	}
	return false, fmt.Sprintf("%s: errors %v and %v, from the cache %t; the kubelet's errors %t and %t, same key %t",
		c.CacheType, a.Err, b.Err, hit, want.ErrorA, want.ErrorB, want.Same), nil
}
